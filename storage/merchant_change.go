package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// MerchantChange is a change of a merchant's settings. A nil field keeps its value.
type MerchantChange struct {
	MerchantID      string
	Name            *string
	Plan            *merchant.Plan
	Terms           *merchant.Terms
	PaymentAttempts *int
	OrderIDGuard    *bool
	// Addresses belong to Mode. An entry with an empty address removes the address. The other settings hold in both modes.
	Mode      checkout.Mode
	Addresses []merchant.PayoutAddress
	// Delay is how long the change or the removal of an address waits. A first address does not wait.
	Delay time.Duration
	// Was and WereAddresses hold the values that the editor saw; nil skips the check. See ChangedError.
	Was           *merchant.Merchant
	WereAddresses map[money.PayoutCurrency]string // "" means no address
	By            merchant.AuditEntry             // ChangeMerchant fills in Detail
}

// MerchantUpdated names one merchant.updated event of a change.
type MerchantUpdated struct {
	Mode    checkout.Mode
	EventID string
}

// MerchantChanged is what ChangeMerchant did; it is empty when nothing changed.
type MerchantChanged struct {
	Events    []MerchantUpdated        // whose workflows the caller starts
	Announced []merchant.AddressChange // addresses that change later
}

// ChangeMerchant changes settings. In the same transaction it stores the merchant.updated events, their deliveries and
// the entry of the audit log, with the old and new values. An address that waits for c.Delay is announced;
// ApplyDueAddresses makes its event. Owners get a mail about live addresses. The caller starts the workflows of the
// events; Reconcile starts them otherwise. It returns checkout.ErrNotFound and *ChangedError.
func (s *Merchants) ChangeMerchant(ctx context.Context, c MerchantChange) (changed MerchantChanged, err error) {
	return pg.InTx(ctx, s.pool, "change merchant", func(tx pgx.Tx) (changed MerchantChanged, err error) {
		m, err := pg.One[merchant.Merchant](ctx, tx, `
			SELECT `+merchantColumns+` FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, c.MerchantID)
		if err != nil {
			return changed, err
		}
		for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
			event, err := applyDueAddresses(ctx, tx, m, mode)
			if err != nil {
				return changed, err
			}
			if event != nil {
				changed.Events = append(changed.Events, *event)
			}
		}
		effects := len(changed.Events)

		if fields := c.conflicts(m); len(fields) > 0 {
			return changed, &pg.ChangedError{Fields: fields}
		}
		before := m
		shared := c.settings(&m)
		if err := updateMerchant(ctx, tx, m); err != nil {
			return changed, err
		}
		detail := settingsDetail(before, m)
		for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
			event, addresses, err := c.applyMode(ctx, tx, m, mode, shared)
			if err != nil {
				return changed, err
			}
			detail = append(detail, addresses...)
			if event != nil {
				changed.Events = append(changed.Events, *event)
			}
			if mode.Live() && len(addresses) > 0 {
				c.By.Detail = strings.Join(addresses, "; ")
				err = people.MailOwners(ctx, tx, m.ID, merchant.MailAddressChanged, people.MailDetail(c.By))
			}
			if err != nil {
				return changed, err
			}
		}

		if changed.Announced, err = c.announce(ctx, tx); err != nil || len(changed.Events) == effects {
			return changed, err
		}
		c.By.Detail = strings.Join(detail, "; ")
		return changed, pg.Audit(ctx, tx, c.By)
	})
}

// applyMode applies the payout addresses of a mode and stores the event for the changes in this mode. The event is nil
// when nothing changed. The second result lists the old and new addresses in words.
func (c MerchantChange) applyMode(
	ctx context.Context, tx pgx.Tx, m merchant.Merchant, mode checkout.Mode, shared map[string]any,
) (*MerchantUpdated, []string, error) {
	previous := maps.Clone(shared)
	before, after, err := c.applyAddresses(ctx, tx, mode)
	if err != nil {
		return nil, nil, err
	}
	detail := addressesDetail(before, after)
	if len(detail) > 0 {
		previous["payout_addresses"] = before
	}
	if len(previous) == 0 {
		return nil, nil, nil
	}
	id, err := publishMerchantUpdate(ctx, tx, m, mode, after, previous)
	return &MerchantUpdated{mode, id}, detail, err
}

// conflicts returns the settings of both modes that c changes and that somebody else changed since the editor saw them.
func (c MerchantChange) conflicts(now merchant.Merchant) (fields []string) {
	if c.Was == nil {
		return nil
	}
	if c.Name != nil && now.Name != c.Was.Name && now.Name != *c.Name {
		fields = append(fields, "name")
	}
	if c.PaymentAttempts != nil && now.PaymentAttempts != c.Was.PaymentAttempts &&
		now.PaymentAttempts != *c.PaymentAttempts {
		fields = append(fields, "payment_attempts")
	}
	// OrderIDGuard cannot conflict: another editor can only have set it to the same value.
	return fields
}

// settingsDetail returns the old and new values of the settings in words, for the audit log.
func settingsDetail(before, after merchant.Merchant) (detail []string) {
	note := func(what string, was, is any) {
		if was != is {
			detail = append(detail, fmt.Sprintf("%s: %v → %v", what, was, is))
		}
	}
	plan := func(m merchant.Merchant) string { return fmt.Sprintf("%s (%s)", m.Plan, m.Fee()) }
	guard := map[bool]string{true: "on", false: "off"}
	note("name", "“"+before.Name+"”", "“"+after.Name+"”")
	note("plan", plan(before), plan(after))
	note("terms", before.Terms.Words(), after.Terms.Words())
	note("failed payments that end a session", before.PaymentAttempts, after.PaymentAttempts)
	note("refusal of a second session for an order", guard[before.OrderIDGuard], guard[after.OrderIDGuard])
	return detail
}

// addressesDetail is settingsDetail for payout addresses. It writes addresses in full: a shortened
// one can look like another, and readers of the log may see addresses anyway.
func addressesDetail(before, after []merchant.PayoutAddress) (detail []string) {
	for _, c := range money.PayoutCurrencies {
		if was, is := addressOf(before, c), addressOf(after, c); was != is {
			detail = append(detail, fmt.Sprintf("%s: %s → %s", c, cmp.Or(was, "none"), cmp.Or(is, "none")))
		}
	}
	return detail
}

// addressOf returns the address for a currency, "" for none.
func addressOf(all []merchant.PayoutAddress, c money.PayoutCurrency) string {
	i := slices.IndexFunc(all, func(a merchant.PayoutAddress) bool { return a.Currency == c })
	if i < 0 {
		return ""
	}
	return all[i].Address
}

// settings applies the settings of both modes to m. It returns the old values of the changed ones,
// under the names that merchant.updated uses.
func (c MerchantChange) settings(m *merchant.Merchant) map[string]any {
	previous := map[string]any{}
	if c.Name != nil && *c.Name != m.Name {
		previous["name"], m.Name = m.Name, *c.Name
	}
	if c.Plan != nil && (c.Plan.Name != m.Plan || c.Plan.Fee() != m.Fee()) {
		previous["plan"], m.Plan = m.Plan, c.Plan.Name
		m.FeeBasisPoints, m.FeeFixed = c.Plan.FeeBasisPoints, c.Plan.FeeFixed
	}
	if c.Terms != nil && c.Terms.Words() != m.Terms.Words() { // they are part of the plan
		previous["plan"], m.Terms = m.Plan, *c.Terms
	}
	before := merchant.Settings{PaymentAttempts: m.PaymentAttempts,
		OrderIDGuard: m.OrderIDGuard}
	after := before
	if c.PaymentAttempts != nil {
		after.PaymentAttempts = *c.PaymentAttempts
	}
	if c.OrderIDGuard != nil {
		after.OrderIDGuard = *c.OrderIDGuard
	}
	if after != before {
		previous["settings"] = before
		m.PaymentAttempts, m.OrderIDGuard = after.PaymentAttempts, after.OrderIDGuard
	}
	return previous
}

func updateMerchant(ctx context.Context, tx pgx.Tx, m merchant.Merchant) error {
	_, err := tx.Exec(ctx, `
		UPDATE merchant SET name = $2, plan = $3, fee_basis_points = $4, fee_fixed = $5,
			payment_attempts = $6, order_id_guard = $7, debt_limit = $8, recovery_percent = $9, reserve_basis_points = $10,
			reserve_days = $11, payout_delay_hours = $12 WHERE id = $1`,
		m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.FeeFixed, m.PaymentAttempts, m.OrderIDGuard, m.DebtLimit,
		m.RecoveryPercent, m.ReserveBasisPoints, m.ReserveDays, m.PayoutDelayHours)
	return err
}

// applyAddresses applies the new addresses when mode is c.Mode. It returns the addresses before and after.
func (c MerchantChange) applyAddresses(
	ctx context.Context, tx pgx.Tx, mode checkout.Mode,
) (before, after []merchant.PayoutAddress, err error) {
	if before, err = payoutAddresses(ctx, tx,
		checkout.Owner{MerchantID: c.MerchantID, Mode: mode}); err != nil || mode != c.Mode {
		return before, before, err
	}

	if err := c.addressConflicts(before); err != nil {
		return nil, nil, err
	}
	for _, to := range c.Addresses {
		if c.waits(before, to) || slices.Contains(before, to) {
			continue // what is not changed takes no announced change back
		}
		if to.Address == "" {
			_, err = tx.Exec(ctx, `
				DELETE FROM payout_address WHERE merchant_id = $1 AND mode = $2 AND currency = $3`, c.MerchantID, mode, to.Currency)
		} else {
			_, err = tx.Exec(ctx, `
				INSERT INTO payout_address (merchant_id, mode, currency, network, address)
				VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (merchant_id, mode, currency)
					DO UPDATE SET network = excluded.network, address = excluded.address, next_network = NULL,
						next_address = NULL, next_at = NULL, next_by = NULL`, c.MerchantID, mode, to.Currency, to.Network, to.Address)
		}
		if err != nil {
			return nil, nil, err
		}
	}

	after, err = payoutAddresses(ctx, tx, checkout.Owner{MerchantID: c.MerchantID, Mode: mode})
	return before, after, err
}

// addressConflicts returns *ChangedError for the addresses that c changes and that somebody else
// changed since the editor saw them.
func (c MerchantChange) addressConflicts(now []merchant.PayoutAddress) error {
	if c.WereAddresses == nil {
		return nil
	}
	var fields []string
	for _, to := range c.Addresses {
		if is := addressOf(now, to.Currency); is != c.WereAddresses[to.Currency] && is != to.Address {
			fields = append(fields, string(to.Currency))
		}
	}
	if len(fields) > 0 {
		return &pg.ChangedError{Fields: fields}
	}
	return nil
}

// publishMerchantUpdate stores the event of one mode and returns its id.
func publishMerchantUpdate(
	ctx context.Context, tx pgx.Tx, m merchant.Merchant, mode checkout.Mode,
	addresses []merchant.PayoutAddress, previous map[string]any,
) (string, error) {
	at, err := pg.Value[time.Time](ctx, tx, `SELECT date_trunc('milliseconds', clock_timestamp())`)
	if err != nil {
		return "", err
	}
	update := merchant.Update{Merchant: m, Mode: mode, Addresses: addresses,
		Previous: previous, Changed: slices.Sorted(maps.Keys(previous))}
	id := checkout.NewID(checkout.PrefixEvent)
	_, err = publish(ctx, tx, publication{
		Ref: m.Owner(mode).Ref(id), Type: webhook.MerchantUpdated,
		SubjectID: checkout.NewID(checkout.PrefixChange), Data: update, At: at,
	})
	return id, err
}
