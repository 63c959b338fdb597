package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// lostTime is how long the service works between a backup and its loss.
const lostTime = 10 * time.Second

// restoreInTheMiddle puts PostgreSQL back to an earlier moment, in even parts of the load, until it has
// done so as often as was asked for.
func (c *chaos) restoreInTheMiddle(ctx context.Context) {
	for c.restores > int(c.restored.Load()) && ctx.Err() == nil {
		part := int(c.restored.Load()) + 1
		if int(c.paidOut.Load()) >= c.payouts*part/(c.restores+1) {
			// To its end, even if the load ends.
			if err := c.restore(c.life); err != nil {
				c.say("restore: %s", err)
			}
		}
		pause(ctx, time.Second)
	}
}

// restore makes a backup, loses what comes after it, and does what deploy/release/live.md says of an old backup.
func (c *chaos) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp(c.dir, "dump-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the data of the run goes as well
	c.world.backup.Lock()                    // a refund in the lost time would be a stranger's
	defer c.world.backup.Unlock()
	lost := invariant.Span{}
	err = c.halted(ctx, func(parts []*part) error {
		for _, p := range parts {
			defer p.suspend()()
		}
		lost.From = time.Now()
		return c.rig.stack.Dump(ctx, dir, devstack.Databases...)
	})
	if err != nil {
		return err
	}
	pause(ctx, lostTime)
	if err := c.halted(ctx, func(parts []*part) error { return c.putBack(ctx, dir, parts) }); err != nil {
		return err
	}
	lost.To = time.Now()
	c.restored.Add(1)
	c.world.updateSiege(func(s *invariant.Siege) { s.Lost = append(s.Lost, lost) })
	c.say("PostgreSQL is as it was %s ago", time.Since(lost.From).Round(time.Second))
	return nil
}

// putBack replaces what the stopped parts have written by the backup, freezes the treasury, and starts them.
func (c *chaos) putBack(ctx context.Context, dir string, parts []*part) error {
	for _, p := range parts {
		p.kill()
	}
	if err := c.recordPayouts(ctx); err != nil {
		return err
	}
	// A fault may cut the connection. Half a backup must not be used.
	for ; ; pause(ctx, time.Second) {
		err := c.rig.stack.RestoreDump(ctx, dir, devstack.Databases...)
		if err == nil {
			break
		}
		if c.say("restore: %s", err); ctx.Err() != nil {
			return err
		}
	}
	// The treasury must be frozen before a worker starts.
	all, err := c.accounts(ctx, false)
	if err = errors.Join(err, c.freezeAccounts(ctx, all...)); err != nil {
		return err
	}
	for _, temporal := range []bool{true, false} { // Temporal first
		for _, p := range parts {
			if (p.kind == "temporal") == temporal {
				c.rig.startAgain(ctx, p)
			}
		}
	}
	return nil
}

// halted calls do with the processes that use PostgreSQL. No fault breaks them or PostgreSQL meanwhile.
func (c *chaos) halted(ctx context.Context, do func([]*part) error) error {
	var parts []*part
	for _, p := range c.rig.parts {
		if slices.Contains([]string{"acquirer", money.Ethereum, money.Bitcoin}, p.kind) {
			continue
		}
		if err := p.await(ctx); err != nil {
			return err
		}
		defer p.Unlock()
		if p.kind != "postgres" {
			parts = append(parts, p)
		}
	}
	return do(parts)
}

// recordPayouts notes what merchants know of their payouts.
func (c *chaos) recordPayouts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // every part stands still meanwhile
	defer cancel()
	known, err := queryAll[invariant.LostPayout](ctx, c.rig, `
		SELECT p.id, p.transaction_id, p.destination, p.currency, p.amount, array_agg(v.tx_hash) FROM payout p
		JOIN transfer_payout x ON x.payout_id = p.id AND x.standing
		JOIN transfer_version v ON v.transfer_id = x.transfer_id WHERE p.mode = 'live' GROUP BY p.id`)
	if err != nil {
		return fmt.Errorf("read which payouts were sent: %w", err)
	}
	c.world.updateSiege(func(s *invariant.Siege) {
		for _, p := range known {
			s.Known[p.ID] = p
		}
	})
	return nil
}

// finishPayments asks the customers of live payments that are older than a freeze to answer their bank, and their
// merchants to end the sessions that wait for a payment. Until all are decided, what the chain has paid is not clear.
func (c *chaos) finishPayments(ctx context.Context, before time.Time) error {
	found, err := queryAll[waiting](ctx, c.rig, `
		SELECT s.id, s.merchant_id, coalesce(t.action_url, '') FROM checkout_session s
		JOIN transaction t ON t.session_id = s.id AND t.status IN ('created', 'processing')
		WHERE s.status = 'pending' AND s.mode = 'live' AND t.created_at < $1`, before)
	if err != nil {
		return err
	}
	c.actFor(ctx, found)
	return nil
}

// recover lets the database know what the chain has. It returns the flags that a person then gives to treasury
// thaw. It returns an error when it must run again first.
func (c *chaos) recover(ctx context.Context, a account) (losses []string, err error) {
	prepare := c.requireEmptyPool
	if a.Network == money.Bitcoin {
		prepare = c.sendAgain
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	err = c.treasury(ctx, a, &said, append([]string{"recover", a.ID, "--apply"}, c.world.chosen[a.Network]...)...)
	if err != nil {
		c.world.chosen[a.Network] = nil // a reorganization may have taken a payment out of the chain
		return nil, err
	}
	var again bool
	if c.world.chosen[a.Network], losses, again = c.readRecovery(ctx, said.String()); again {
		return nil, errors.New("recover must run again")
	}
	return losses, nil
}

// requireEmptyPool returns an error while the node's pool has a transaction of the treasury that PostgreSQL does not
// know. It may wait for a lower nonce, so that no other command sees it.
func (c *chaos) requireEmptyPool(ctx context.Context) error {
	known, err := query[[]string](ctx, c.rig, `SELECT coalesce(array_agg(tx_hash), '{}') FROM transfer_version`)
	if err != nil {
		return err
	}
	var pool map[string]map[common.Address]map[string]struct{ Hash string }
	return c.onNode(ctx, money.Ethereum, func(d *devstack.LiveDouble) error {
		if err := d.Anvil.Call(ctx, &pool, "txpool_content"); err != nil {
			return err
		}
		for _, waiting := range pool {
			for _, tx := range waiting[d.Treasury()] {
				if !slices.Contains(known, tx.Hash) {
					return fmt.Errorf("the pool has %s, which PostgreSQL does not know", tx.Hash)
				}
			}
		}
		return nil
	})
}

// readRecovery reads what treasury recover has said. It returns the flags that a person gives to it the next time and
// to treasury thaw, and whether it must run again first.
func (c *chaos) readRecovery(ctx context.Context, said string) (chosen, losses []string, again bool) {
	again = strings.Contains(said, "not final yet")
	for line := range strings.Lines(said) {
		payment, _, _ := strings.Cut(line, " ")
		c.say("recover: %s", strings.TrimSpace(line))
		if !namesPayment.MatchString(payment) || strings.Contains(line, "written") {
			continue
		}
		transaction := c.paidBy(line)
		payout, err := query[string](ctx, c.rig, `
			SELECT coalesce((SELECT coalesce((SELECT CASE p.status WHEN 'sent' THEN 'sent' ELSE p.id END
					FROM payout p WHERE p.transaction_id = t.id), 'none yet')
				FROM transaction t WHERE t.id = $1 AND t.acquirer_ref IS NOT NULL), '')`, transaction)
		switch {
		case err != nil || payout == "none yet":
			again = true // the payment is decided first
		case payout == "", payout == "sent": // its row is lost, or it was paid twice, which 24 judges
			losses = append(losses, "--loss", payment)
			if strings.Contains(payment, ":") { // the others of its transaction are written beside it
				chosen = append(chosen, "--loss", payment)
				again = again || strings.Contains(line, "no payout fits") || strings.Contains(line, "it may be no loss")
			}
		case strings.Contains(line, "retry it"):
			c.retryPayout(ctx, payout)
			again = true
		default:
			chosen, again = append(chosen, "--paid", payment+"="+payout), true
		}
	}
	return chosen, losses, again
}

// namesPayment matches the name of a payment: a transaction, on Bitcoin with an output.
var namesPayment = regexp.MustCompile(`^0x[0-9a-f]+$|^[0-9a-f]{64}:[0-9]+$`)

// known returns the payouts of which merchants knew before a restore.
func (w *world) known() []invariant.LostPayout {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.siege.Known))
}

// paidBy returns the payment that was paid out as a line of treasury recover says, as merchants know it.
func (c *chaos) paidBy(line string) (transactionID string) {
	hash, _, _ := strings.Cut(strings.Fields(line)[0], ":")
	for _, p := range c.world.known() {
		// A transaction of Bitcoin pays several, each of another amount.
		is := p.Currency != money.BTC || strings.Contains(line, " "+p.Amount+" ") && strings.Contains(line, p.Destination)
		if is && slices.Contains(p.Hashes, hash) {
			return p.TransactionID
		}
	}
	return ""
}

// sendAgain gives the node what its treasury's wallet has and its pool has lost. On a real network other nodes still
// have it.
func (c *chaos) sendAgain(ctx context.Context) error {
	return c.onNode(ctx, money.Bitcoin, func(d *devstack.LiveDouble) error {
		all, err := walletTxs(ctx, d)
		for _, tx := range all {
			var got struct {
				Hex string `json:"hex"`
			}
			if tx.Confirmations != 0 || err != nil {
				continue
			}
			err = d.Bitcoin.Call(ctx, devstack.TreasuryWallet, &got, "gettransaction", tx.TxID)
			_ = d.Bitcoin.Call(ctx, "", nil, "sendrawtransaction", got.Hex) // it is there, or another version is
		}
		return err
	})
}

// walletTx is a transaction that the treasury's wallet knows. Below 0 confirmations another one replaced it.
type walletTx struct {
	TxID          string `json:"txid"`
	Confirmations int    `json:"confirmations"`
}

func walletTxs(ctx context.Context, d *devstack.LiveDouble) ([]walletTx, error) {
	var since struct {
		Transactions []walletTx `json:"transactions"`
	}
	err := d.Bitcoin.Call(ctx, devstack.TreasuryWallet, &since, "listsinceblock")
	return since.Transactions, err
}

// refundUnknown gives back what the card network has charged for a lost row, unless the merchant was paid.
func (c *chaos) refundUnknown(ctx context.Context) error {
	if c.restored.Load() == 0 {
		return nil
	}
	facts, err := c.world.card.Facts(ctx)
	if err != nil {
		return err
	}
	there, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(acquirer_ref), '{}') FROM transaction WHERE mode = 'live' AND acquirer_ref IS NOT NULL`)
	if err != nil {
		return err
	}
	for _, charge := range facts.Charges {
		if slices.Contains(there, charge.IntentID) || !charge.Paid || charge.Refunded > 0 ||
			c.paidOnChain(ctx, charge.TransactionID) {
			continue
		}
		form := url.Values{"charge": {charge.ID}}.Encode()
		got := request(ctx, http.MethodPost, c.rig.stack.Live.Acquirer.APIURL()+"/v1/refunds", http.Header{
			"Authorization": {"Bearer " + devstack.AcquirerKey}, "Content-Type": {"application/x-www-form-urlencoded"},
			"Idempotency-Key": {"operator " + charge.ID},
		}, form)
		if got.status != http.StatusOK {
			return fmt.Errorf("refund %s at the card network: %d %s", charge.ID, got.status, got.body)
		}
	}
	return nil
}

// paidOnChain reports whether a transaction in a block paid out a payment whose row is lost, or nobody knows.
func (c *chaos) paidOnChain(ctx context.Context, transactionID string) bool {
	for _, p := range c.world.known() {
		network := p.Currency.Network()
		for _, hash := range p.Hashes {
			if p.TransactionID != transactionID {
				continue
			}
			var paid bool
			err := c.onNode(ctx, network, func(d *devstack.LiveDouble) (err error) {
				paid, err = mined(ctx, d, network, hash)
				return err
			})
			if paid || err != nil {
				return true
			}
		}
	}
	return false
}

// mined reports whether a transaction of the treasury is in a block, and paid.
func mined(ctx context.Context, d *devstack.LiveDouble, network, hash string) (bool, error) {
	if network == money.Bitcoin {
		all, err := walletTxs(ctx, d)
		is := func(tx walletTx) bool { return tx.TxID == hash && tx.Confirmations > 0 }
		return slices.ContainsFunc(all, is), err
	}
	var receipt *chains.Receipt
	err := d.Anvil.Call(ctx, &receipt, "eth_getTransactionReceipt", hash)
	return receipt != nil && receipt.Status == 1, err
}
