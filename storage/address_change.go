package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// The view current_payout_address says which address holds at the moment, by PostgreSQL's clock. So an
// announced change holds from its time on, even when nobody has called ApplyDueAddresses yet.

// lockAnnounced makes a transaction that chooses a payout's address wait for those who stop the announced
// change, and makes them wait for it. Without it, a change that was stopped in its last moment could still
// get a payout. A merchant without an announced change has nothing to lock.
func lockAnnounced(ctx context.Context, tx pgx.Tx, owner checkout.Owner, currency money.PayoutCurrency) error {
	return pg.Exec(ctx, tx, "lock payout address", `
		SELECT FROM payout_address WHERE merchant_id = $1 AND mode = $2 AND currency = $3 AND next_at IS NOT NULL
		FOR SHARE`, owner.MerchantID, owner.Mode, currency)
}

// waits reports whether the new address of a currency is announced first.
func (c MerchantChange) waits(before []merchant.PayoutAddress, to merchant.PayoutAddress) bool {
	was := addressOf(before, to.Currency)
	return c.Delay > 0 && was != "" && was != to.Address
}

// announce stores the addresses that wait, with an entry of the audit log, and a mail to every owner. A
// change that was announced before is replaced, and its time begins again.
func (c MerchantChange) announce(ctx context.Context, tx pgx.Tx) (all []merchant.AddressChange, err error) {
	if c.Delay <= 0 || len(c.Addresses) == 0 {
		return nil, nil
	}
	before, err := payoutAddresses(ctx, tx, checkout.Owner{MerchantID: c.MerchantID, Mode: c.Mode})
	if err != nil {
		return nil, err
	}
	var detail []string
	for _, to := range c.Addresses {
		if !c.waits(before, to) {
			continue
		}
		change := merchant.AddressChange{PayoutAddress: to, By: c.By.Actor}
		var replaced *string // the address that was announced before
		err := tx.QueryRow(ctx, `
			UPDATE payout_address a SET next_network = $4, next_address = $5, next_by = $6,
				next_at = date_trunc('milliseconds', clock_timestamp() + $7::interval)
			FROM ( -- locked, or a change that is being stopped would count as replaced
				SELECT next_address FROM payout_address WHERE (merchant_id, mode, currency) = ($1, $2, $3) FOR NO KEY UPDATE
			) earlier WHERE (a.merchant_id, a.mode, a.currency) = ($1, $2, $3)
			RETURNING a.next_at, earlier.next_address`,
			c.MerchantID, c.Mode, to.Currency, to.Network, to.Address, change.By, c.Delay).Scan(&change.At, &replaced)
		if err != nil {
			return nil, err
		}
		all = append(all, change)
		says := fmt.Sprintf("%s: %s → %s, from %s on", to.Currency, addressOf(before, to.Currency),
			cmp.Or(to.Address, "none"), checkout.FormatTime(change.At))
		if replaced != nil {
			says += ", in place of the announced change to " + cmp.Or(*replaced, "none")
		}
		detail = append(detail, says)
	}
	if len(all) == 0 {
		return nil, nil
	}
	by := c.By
	by.ID, by.Action = checkout.NewID(checkout.PrefixAuditEntry), "payout_address.change_announced"
	by.Detail = strings.Join(detail, "; ")
	if err := people.MailOwners(ctx, tx, c.MerchantID, merchant.MailAddressAsked, people.MailDetail(by)); err != nil {
		return nil, err
	}
	return all, pg.Audit(ctx, tx, by)
}

// AddressChanges returns the changes of a merchant's payout addresses that are announced in a mode.
func (s *Merchants) AddressChanges(ctx context.Context, owner checkout.Owner) ([]merchant.AddressChange, error) {
	all, err := pg.Collect[merchant.AddressChange](ctx, s.pool, `
		SELECT currency, next_network AS network, next_address AS address, next_at AS at, next_by AS by
		FROM payout_address WHERE merchant_id = $1 AND mode = $2 AND next_at > clock_timestamp() ORDER BY currency`,
		owner.MerchantID, owner.Mode)
	return all, pg.Wrap("address changes", err)
}

// StopAddressChange takes an announced change back, and sends a mail to every owner. It returns
// checkout.ErrNotFound when no such change is announced, or when it holds already.
func (s *Merchants) StopAddressChange(
	ctx context.Context, owner checkout.Owner, to merchant.PayoutAddress, by merchant.AuditEntry,
) error {
	return pg.RunInTx(ctx, s.pool, "stop address change", func(tx pgx.Tx) error {
		stays, err := pg.Value[string](ctx, tx, `
			UPDATE payout_address SET next_network = NULL, next_address = NULL, next_at = NULL, next_by = NULL
			WHERE merchant_id = $1 AND mode = $2 AND currency = $3 AND next_address = $4 AND next_at > clock_timestamp()
			RETURNING address`, owner.MerchantID, owner.Mode, to.Currency, to.Address)
		if err != nil {
			return err
		}
		by.Detail = fmt.Sprintf("%s: %s stays, not %s", to.Currency, stays, cmp.Or(to.Address, "none"))
		detail := people.MailDetail(by)
		if err := people.MailOwners(ctx, tx, owner.MerchantID, merchant.MailAddressStopped, detail); err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by)
	})
}

// applyDueAddresses moves the addresses of a mode whose time has come to their place, and stores the
// merchant.updated event, an entry of the audit log and a mail to every owner. The caller holds the lock of
// the merchant. The event is nil when no time has come.
func applyDueAddresses(
	ctx context.Context, tx pgx.Tx, m merchant.Merchant, mode checkout.Mode,
) (*MerchantUpdated, error) {
	before, err := pg.Collect[merchant.PayoutAddress](ctx, tx, `
		SELECT currency, network, address FROM payout_address WHERE merchant_id = $1 AND mode = $2 ORDER BY currency`,
		m.ID, mode)
	if err != nil {
		return nil, err
	}
	tag, err := tx.Exec(ctx, `
		WITH due AS (
			SELECT currency, next_address FROM payout_address
			WHERE merchant_id = $1 AND mode = $2 AND next_at <= clock_timestamp() FOR UPDATE
		), removed AS (
			DELETE FROM payout_address a USING due WHERE a.merchant_id = $1 AND a.mode = $2
				AND a.currency = due.currency AND due.next_address = ''
		), moved AS (
			UPDATE payout_address a SET network = a.next_network, address = a.next_address, next_network = NULL,
				next_address = NULL, next_at = NULL, next_by = NULL
			FROM due WHERE a.merchant_id = $1 AND a.mode = $2 AND a.currency = due.currency AND due.next_address <> ''
		)
		SELECT FROM due`, m.ID, mode)
	if err != nil || tag.RowsAffected() == 0 {
		return nil, err
	}
	after, err := payoutAddresses(ctx, tx, m.Owner(mode))
	if err != nil {
		return nil, err
	}
	by := merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.ID, Mode: &mode, Actor: "the announced time",
		Action: "payout_address.changed", Subject: m.ID, Detail: strings.Join(addressesDetail(before, after), "; "),
	}
	if err := people.MailOwners(ctx, tx, m.ID, merchant.MailAddressChanged, people.MailDetail(by)); err != nil {
		return nil, err
	}
	if err := pg.Audit(ctx, tx, by); err != nil {
		return nil, err
	}
	id, err := publishMerchantUpdate(ctx, tx, m, mode, after, map[string]any{"payout_addresses": before})
	return &MerchantUpdated{mode, id}, err
}

// ApplyDueAddresses tells of up to limit merchants' announced addresses whose time has come: see applyDueAddresses.
// Reconcile starts the workflows of the events. It returns the number of merchants.
func (s *Merchants) ApplyDueAddresses(ctx context.Context, limit int) (int, error) {
	merchants, err := pg.Values[string](ctx, s.pool, `
		SELECT DISTINCT merchant_id FROM payout_address WHERE next_at <= clock_timestamp() LIMIT $1`, limit)
	for _, id := range merchants {
		_, fault := s.ChangeMerchant(ctx, MerchantChange{MerchantID: id})
		err = errors.Join(err, fault) // one merchant's fault does not hold the others up
	}
	return len(merchants), pg.Wrap("due addresses", err)
}
