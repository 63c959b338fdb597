package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// MerchantChange changes settings; nil leaves one as it is.
type MerchantChange struct {
	MerchantID      string
	Name            *string
	Plan            *checkout.Plan
	PaymentAttempts *int
	OrderIDGuard    *bool
	// Addresses are of Mode; one with an empty address is removed. The other
	// settings are of both modes.
	Mode      checkout.Mode
	Addresses []checkout.PayoutAddress
	By        checkout.AuditEntry // Detail is written by ChangeMerchant
}

// MerchantUpdated is one merchant.updated event that a change caused.
type MerchantUpdated struct {
	Mode    checkout.Mode
	EventID string
}

// ChangeMerchant changes settings in one transaction with the merchant.updated
// events, their deliveries and the entry of the audit log. It returns the
// events, whose workflows the caller starts; none when nothing is different. It
// returns checkout.ErrNotFound.
func (s *Store) ChangeMerchant(ctx context.Context, c MerchantChange) (events []MerchantUpdated, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		events = nil
		rows, err := tx.Query(ctx, `SELECT `+merchantColumns+` FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, c.MerchantID)
		if err != nil {
			return err
		}
		m, err := pgx.CollectExactlyOneRow(rows, scanMerchant)
		if errors.Is(err, pgx.ErrNoRows) {
			return checkout.ErrNotFound
		}
		if err != nil {
			return err
		}
		shared := c.settings(&m)
		if err := updateMerchant(ctx, tx, m); err != nil {
			return err
		}
		var changed []string
		for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
			previous := map[string]any{}
			for name, value := range shared {
				previous[name] = value
			}
			before, after, err := c.payoutAddresses(ctx, tx, mode)
			if err != nil {
				return err
			}
			if !slices.Equal(before, after) {
				previous["payout_addresses"] = before
			}
			if len(previous) == 0 {
				continue
			}
			id, names, err := publishMerchantUpdate(ctx, tx, m, mode, after, previous)
			if err != nil {
				return err
			}
			events = append(events, MerchantUpdated{mode, id})
			changed = append(changed, names...)
		}
		if len(events) == 0 {
			return nil
		}
		slices.Sort(changed)
		c.By.Detail = strings.Join(slices.Compact(changed), ", ")
		return audit(ctx, tx, c.By)
	})
	if err != nil {
		return nil, fmt.Errorf("change merchant: %w", err)
	}
	return events, nil
}

// settings applies the settings of both modes to m and returns what those that
// are different were, by the names of merchant.updated.
func (c MerchantChange) settings(m *checkout.Merchant) map[string]any {
	previous := map[string]any{}
	if c.Name != nil && *c.Name != m.Name {
		previous["name"], m.Name = m.Name, *c.Name
	}
	if c.Plan != nil && c.Plan.Name != m.Plan {
		previous["plan"], m.Plan, m.FeeBasisPoints = m.Plan, c.Plan.Name, c.Plan.FeeBasisPoints
	}
	before := checkout.MerchantSettings{PaymentAttempts: m.PaymentAttempts, OrderIDGuard: m.OrderIDGuard}
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

func updateMerchant(ctx context.Context, tx pgx.Tx, m checkout.Merchant) error {
	_, err := tx.Exec(ctx, `UPDATE merchant SET name = $2, plan = $3, fee_basis_points = $4, payment_attempts = $5, order_id_guard = $6 WHERE id = $1`,
		m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.PaymentAttempts, m.OrderIDGuard)
	return err
}

// payoutAddresses applies the addresses to mode and returns what they were and
// what they are.
func (c MerchantChange) payoutAddresses(ctx context.Context, tx pgx.Tx, mode checkout.Mode) (before, after []checkout.PayoutAddress, err error) {
	if before, err = payoutAddresses(ctx, tx, c.MerchantID, mode); err != nil || mode != c.Mode {
		return before, before, err
	}
	for _, to := range c.Addresses {
		if to.Address == "" {
			_, err = tx.Exec(ctx, `DELETE FROM payout_address WHERE merchant_id = $1 AND mode = $2 AND currency = $3`, c.MerchantID, mode, to.Currency)
		} else {
			_, err = tx.Exec(ctx, `
				INSERT INTO payout_address (merchant_id, mode, currency, network, address) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (merchant_id, mode, currency) DO UPDATE SET network = excluded.network, address = excluded.address`,
				c.MerchantID, mode, to.Currency, to.Network, to.Address)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	after, err = payoutAddresses(ctx, tx, c.MerchantID, mode)
	return before, after, err
}

// publishMerchantUpdate stores the event of one mode. It returns its id and the
// names of what changed.
func publishMerchantUpdate(ctx context.Context, tx pgx.Tx, m checkout.Merchant, mode checkout.Mode, addresses []checkout.PayoutAddress, previous map[string]any) (string, []string, error) {
	var at time.Time
	if err := tx.QueryRow(ctx, `SELECT date_trunc('milliseconds', clock_timestamp())`).Scan(&at); err != nil {
		return "", nil, err
	}
	update := checkout.MerchantUpdate{Merchant: m, Mode: mode, Addresses: addresses, Previous: previous}
	for name := range previous {
		update.Changed = append(update.Changed, name)
	}
	slices.Sort(update.Changed)
	id := checkout.NewID(checkout.PrefixEvent)
	_, err := publish(ctx, tx, publication{
		ID: id, MerchantID: m.ID, Mode: mode, Type: webhook.MerchantUpdated, SubjectID: checkout.NewID(checkout.PrefixChange), Data: update, At: at,
	})
	return id, update.Changed, err
}
