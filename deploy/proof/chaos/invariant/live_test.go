package invariant

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

const (
	shop        = "0x00000000000000000000000000000000000A11cE"
	bitcoinShop = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
)

// addLive adds a live session that was paid out with 11 USDC, with the second version of its transfer, and two that one
// transaction of Bitcoin paid, which spent two coins. The first transaction of the treasury on Ethereum was a thief's.
func (f *Facts) addLive() {
	amounts := func(eth, usdc, usdt, btc int64) map[money.PayoutCurrency]*big.Int {
		return map[money.PayoutCurrency]*big.Int{
			money.ETH: big.NewInt(eth), money.USDC: big.NewInt(usdc), money.USDT: big.NewInt(usdt), money.BTC: big.NewInt(btc),
		}
	}
	coins := treasury.Slot{"aa:1", "bb:0"}
	f.Live = &Live{
		Intents: []acquirer.IntentFact{{ID: "pi_1", TransactionID: "txn_live", Status: "succeeded", Amount: 1050, Currency: "eur"}},
		Charges: []acquirer.ChargeFact{{ID: "ch_0", IntentID: "pi_1", TransactionID: "txn_live", Amount: 1050, Currency: "eur"}},
		Sent: []SentTransaction{
			{TxHash: "cc", Slot: slices.Clone(coins)}, {TxHash: "0xbad", Slot: treasury.NumberSlot(0)}, {TxHash: "0x2", Slot: treasury.NumberSlot(1)},
		},
		Nonce: 2, Treasury: amounts(7, 5_000_000, 0, 59_000),
		Balances: map[string]map[money.PayoutCurrency]*big.Int{shop: amounts(0, 11_000_000, 0, 0), bitcoinShop: amounts(0, 0, 0, 40_001)},
		Siege: Siege{
			Thefts: []Theft{{"0xbad", "no transfer explains it"}}, Frozen: []string{OperatorsFreeze, "no transfer explains it"},
			Hostile: "mer_enemy", Sieges: []Span{{noon.Add(-time.Hour), noon}}, Halts: []Span{{noon.Add(time.Hour), noon.Add(2 * time.Hour)}},
		},
	}
	f.addPaid("", money.EUR, "11", money.USDC, shop)
	f.addPaid("_btc1", money.GBP, "0.00020000", money.BTC, bitcoinShop)
	f.addPaid("_btc2", money.GBP, "0.00020001", money.BTC, bitcoinShop)
	f.Transfers = []Transfer{
		{"tr_1", []string{"po_live"}, treasury.NumberSlot(1), treasury.TransferStateConfirmed, "0x2", []string{"0x1", "0x2"}},
		{"tr_2", []string{"po_live_btc1", "po_live_btc2"}, coins, treasury.TransferStateConfirmed, "cc", []string{"cc"}},
	}
	f.Ledger = []LedgerBalance{
		{"acquirer:receivable", "EUR", "1050"}, {"transit", "USDC", "0"}, {"wallet", "ETH", "7"}, {"wallet", "USDC", "5000000"},
		{"acquirer:receivable", "GBP", "2100"}, {"wallet", "BTC", "59000"},
	}
	f.addLiveCharges()
}

// addPaid adds a live session that was paid with 10.50 of a currency, and paid out.
func (f *Facts) addPaid(suffix string, currency money.Currency, amount string, payout money.PayoutCurrency, to string) {
	made, paid := noon.Add(-10*time.Minute), noon.Add(-9*time.Minute)
	session, transaction, id := "cs_live"+suffix, "txn_live"+suffix, "po_live"+suffix
	f.Sessions = append(f.Sessions, &Session{
		ID: session, MerchantID: "mer_2", Mode: checkout.ModeLive, Status: checkout.StatusCompleted, Amount: 1050,
		Currency: currency, CreatedAt: made, ExpiresAt: made.Add(time.Hour), EndedAt: new(paid),
	})
	f.Transactions = append(f.Transactions, Transaction{
		ID: transaction, SessionID: session, MerchantID: "mer_2", Mode: checkout.ModeLive, Status: checkout.TransactionSucceeded,
		SessionStatus: checkout.StatusCompleted, CreatedAt: made, CompletedAt: new(paid), Reference: "pi_1",
	})
	f.Payouts = append(f.Payouts, Payout{
		ID: id, SessionID: session, TransactionID: transaction, MerchantID: "mer_2", Mode: checkout.ModeLive,
		Status: checkout.PayoutSent, Generation: 1, Currency: payout, Amount: amount, Destination: to, Transfers: 1,
		CreatedAt: paid, SentAt: new(paid.Add(time.Minute)), SourceAmount: 1050, SourceCurrency: currency,
		ExchangeRate: money.MustRate("1.2"),
	})
	for _, e := range []Event{
		{ID: "evt_live_paid" + suffix, Type: webhook.CheckoutCompleted, SubjectID: transaction},
		{ID: "evt_live_sent" + suffix, Type: webhook.PayoutSent, SubjectID: id},
	} {
		e.MerchantID, e.Mode, e.SessionID, e.CreatedAt = "mer_2", checkout.ModeLive, session, noon.Add(-2*time.Hour)
		f.Events = append(f.Events, e)
	}
	f.Runs = append(f.Runs, Run{
		Type: contract.TypeCheckoutSession, WorkflowID: session, RunID: "r-live" + suffix, Status: completed, StartedAt: made, Last: true,
		Result: string(checkout.StatusCompleted),
	})
	f.Live.Charges = append(f.Live.Charges, acquirer.ChargeFact{
		ID: "ch_1" + suffix, IntentID: "pi_1", TransactionID: transaction, Amount: 1050, Currency: strings.ToLower(string(currency)), Paid: true,
	})
}

func (f *Facts) payout(id string) *Payout {
	return &f.Payouts[slices.IndexFunc(f.Payouts, func(p Payout) bool { return p.ID == id })]
}

// charge adds a charge of the double.
func (f *Facts) charge(c acquirer.ChargeFact) {
	f.Live.Charges = append(f.Live.Charges, c)
	f.Charges = slices.DeleteFunc(f.Charges, func(c Charge) bool { return strings.HasPrefix(c.SessionID, "cs_live") })
	f.addLiveCharges()
}

// liveCases are cases of TestCheck_NamesExactlyWhatIsBroken.
var liveCases = []brokenCase{
	// 5
	{"5: a live session was charged twice", func(f *Facts) {
		f.charge(acquirer.ChargeFact{ID: "ch_2", TransactionID: "txn_live", Amount: 1050, Currency: "eur", Paid: true})
		f.Ledger[0].Amount = "2100"
	}, "5 cs_live"},
	{"5: and one charge went back", func(f *Facts) {
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_gone", SessionID: "cs_live", MerchantID: "mer_2", Mode: checkout.ModeLive,
			Status: "created", CreatedAt: noon})
		f.session("cs_live").Status = checkout.StatusCompleted
		f.charge(acquirer.ChargeFact{ID: "ch_2", TransactionID: "txn_gone", Amount: 1050, Currency: "eur", Paid: true, Refunded: 1050})
	}, "23 cs_live"},
	{"5: a live session is completed and was not charged", func(f *Facts) {
		f.Live.Charges[1].Paid, f.Ledger[0].Amount = false, "0"
		f.charge(acquirer.ChargeFact{})
	}, "5 cs_live"},
	{"5: nobody knows what a live session was charged", func(f *Facts) {
		f.Live.Charges = nil
		f.charge(acquirer.ChargeFact{})
		f.Live = nil
	}, ""},

	// 17
	{"17: a live payout has two transfers that stand", func(f *Facts) { f.payout("po_live").Transfers = 2 }, "17 po_live"},
	{"17: a live payout was sent without a transfer", func(f *Facts) { f.payout("po_live").Transfers = 0 }, "17 po_live"},
	{"17: a retried live payout says that it failed before", func(f *Facts) {
		f.payout("po_live").Generation = 2
		e := *f.eventOf("evt_live_sent")
		e.ID, e.Type = "evt_live_failed", webhook.PayoutFailed
		f.Events = append(f.Events, e)
	}, ""},

	// 23
	{"23: charged another amount", func(f *Facts) { f.Live.Charges[1].Amount, f.Ledger[0].Amount = 1051, "1051" }, "23 cs_live"},
	{"23: charged in another currency", func(f *Facts) { f.Live.Charges[1].Currency, f.Ledger[0].Asset = "usd", "USD" }, "23 cs_live"},
	{"23: a completed session whose charge went back in part", func(f *Facts) {
		f.Live.Charges[1].Refunded, f.Ledger[0].Amount = 1, "1049"
	}, "23 cs_live"},
	{"23: a refund that the card network does not have", func(f *Facts) { f.Refunds = []Refund{{"re_1", "txn_live", 1}} }, "23 cs_live"},
	{"23: refunded in part", func(f *Facts) { f.refund("re_1", 1) }, ""},
	{"23: the bank has agreed, and the session has ended", func(f *Facts) {
		f.Live.Intents = append(f.Live.Intents, acquirer.IntentFact{ID: "pi_2", TransactionID: "txn_live", Status: "requires_confirmation"})
	}, "23 pi_2"},

	// 24
	{"24: paid twice", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{TxHash: "0x1", Slot: treasury.NumberSlot(2)}), 3
		f.Live.Balances[shop][money.USDC] = big.NewInt(22_000_000)
	}, "24 " + shop + ", 24 po_live, 25 tr_1"},
	{"24: sent and not paid", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = f.Live.Sent[:2], 1
		f.Live.Balances[shop][money.USDC] = new(big.Int)
	}, "24 " + shop + ", 24 po_live, 25 tr_1"},
	{"24: failed and paid all the same", func(f *Facts) {
		f.payout("po_live").Status, f.payout("po_live").Transfers = checkout.PayoutFailed, 0
		f.eventOf("evt_live_sent").Type = webhook.PayoutFailed
	}, "24 " + shop + ", 24 po_live"},
	{"24: the address has one unit less", func(f *Facts) { f.Live.Balances[shop][money.USDC] = big.NewInt(10_999_999) }, "24 " + shop},
	{"24: the address got another currency", func(f *Facts) { f.Live.Balances[shop][money.USDT] = big.NewInt(1) }, "24 " + shop},

	// 25
	{"25: nobody noticed the thief", func(f *Facts) { f.Live.Thefts[0].Froze, f.Live.Frozen = "", nil }, "25 0xbad"},
	{"25: a transaction of no transfer", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{TxHash: "0x9", Slot: treasury.NumberSlot(2)}), 3
	}, "25 0x9"},
	{"25: confirmed with another version", func(f *Facts) { f.Transfers[0].TxHash = "0x1" }, "25 tr_1"},
	{"25: still live, and in a block", func(f *Facts) { f.Transfers[0].Status, f.Transfers[0].TxHash = storage.TransferLive, "" }, "25 tr_1"},
	{"25: a nonce without a transaction", func(f *Facts) { f.Live.Nonce = 3 }, "25 treasury"},
	{"24: a batch lacks a payout", func(f *Facts) { f.Transfers[1].Payouts = f.Transfers[1].Payouts[:1] }, "24 po_live_btc2"},
	{"24: a batch pays a satoshi less", func(f *Facts) { f.Live.Balances[bitcoinShop][money.BTC] = big.NewInt(40_000) }, "24 " + bitcoinShop},
	{"25: a version forgot a coin", func(f *Facts) { f.Live.Sent[0].Slot = f.Live.Sent[0].Slot[:1] }, "25 tr_2"},
	{"25: a coin was spent too early", func(f *Facts) { f.Live.Sent[0].Hasty = true }, "25 tr_2"},
	{"26: the wallet lacks a satoshi", func(f *Facts) { f.Live.Treasury[money.BTC] = big.NewInt(58_999) }, "26 wallet BTC"},

	// 26
	{"26: the wallet lacks one unit", func(f *Facts) { f.Ledger[3].Amount = "4999999" }, "26 wallet USDC"},
	{"26: the chain has what the ledger does not", func(f *Facts) { f.Live.Treasury[money.USDT] = big.NewInt(1) }, "26 wallet USDT"},
	{"26: the card network owes more", func(f *Facts) { f.Ledger[0].Amount = "1049" }, "26 acquirer:receivable EUR"},
	{"26: a dispute holds a part", func(f *Facts) { f.Live.Charges[1].Held, f.Ledger[0].Amount = 50, "1000" }, ""},
	{"26: a charge is settled twice", func(f *Facts) {
		f.Ledger = append(f.Ledger, LedgerBalance{"acquirer:receivable settled", "EUR", "-2100"})
	}, "26 acquirer:receivable EUR"},
	{"26: something is on its way for ever", func(f *Facts) { f.Ledger[1].Amount = "-11000000" }, "26 transit USDC"},
	{"26: an entry is not balanced", func(f *Facts) { f.Unbalanced = []string{"charge of txn_live by 1 EUR"} }, "26 ledger"},

	// 27
	{"27: paid out and given back", func(f *Facts) { f.Live.Charges[1].Refunded, f.Ledger[0].Amount = 1050, "0" }, "23 cs_live"},
	{"27: refunded by an operator, and paid out", func(f *Facts) {
		f.payout("po_live").GivenBack = true
		f.refund("re_1", 1050)
	}, "27 po_live"},
	{"27: refunded by its merchant, and paid out", func(f *Facts) { f.refund("re_1", 1050) }, ""},
	{"27: neither paid out nor given back", func(f *Facts) { f.unpaid() }, "27 po_live"},
	{"27: kept for what the merchant owes", func(f *Facts) {
		f.unpaid()
		f.payout("po_live").Deducted = 1050
	}, ""},
	{"27: given back by its row alone", func(f *Facts) {
		f.giveBack()
		f.Live.Charges[1].Refunded, f.Ledger[0].Amount = 0, "1050"
	}, "23 cs_live, 27 po_live"},
	{"27: given back in part", func(f *Facts) {
		f.giveBack()
		f.Live.Charges[1].Refunded, f.Ledger[0].Amount = 1049, "1"
	}, "23 cs_live, 27 po_live"},

	// After a restore
	{"5: a restore has taken the row, and the merchant has the money", func(f *Facts) { f.lose() }, ""},
	{"5: a restore has taken the row, and nobody has the money", func(f *Facts) {
		f.lose()
		f.Live.Sent, f.Live.Nonce = f.Live.Sent[:3], 2
		f.Live.Balances[shop][money.USDC] = big.NewInt(11_000_000)
	}, "5 txn_gone"},
	{"23: a restore has taken what was asked", func(f *Facts) {
		f.lose()
		f.Live.Charges[len(f.Live.Charges)-1].Amount = 1050
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_gone", SessionID: "cs_live", MerchantID: "mer_2",
			Mode: checkout.ModeLive, Status: "created", CreatedAt: noon})
		f.Live.Intents = append(f.Live.Intents, acquirer.IntentFact{ID: "pi_2", TransactionID: "txn_gone", Status: "requires_action"})
	}, ""},
	{"26: settled, and given back later", func(f *Facts) {
		f.giveBack()
		f.Ledger = append(f.Ledger, LedgerBalance{"acquirer:receivable settled", "EUR", "-1050"})
	}, ""},
	{"24: a payout whose row is lost was paid twice", func(f *Facts) {
		f.lose()
		f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{TxHash: "0xgone2", Slot: treasury.NumberSlot(3)}), 4
		f.Live.Balances[shop][money.USDC] = big.NewInt(17_000_000)
	}, "24 " + shop},
	{"25: nobody ever knew what left after a restore", func(f *Facts) {
		f.lose()
		f.Live.Known = nil
		f.Live.Balances[shop][money.USDC] = big.NewInt(11_000_000)
	}, "25 0xgone, 5 txn_gone"},

	// 28
	{"28: a stranger froze the treasury", func(f *Facts) {
		f.Live.Frozen = append(f.Live.Frozen, "no transfer explains the transaction 0xdust")
	}, "28 treasury"},
	{"28: what a restore has taken from the rows froze it", func(f *Facts) {
		f.lose()
		f.Live.Frozen = append(f.Live.Frozen, "no transfer explains the transaction 0xgone of nonce 2")
	}, ""},

	// 30
	{"30: an address that reverted is paid all the same", func(f *Facts) { f.revert(shop) }, "30 po_live"},
	{"30: another address reverted", func(f *Facts) { f.revert("0xother") }, ""},
}

// revert lets a version that reverted at an address come before the one that paid.
func (f *Facts) revert(at string) {
	f.Live.Sent[2].To, f.Live.Sent[2].Slot, f.Live.Nonce = shop, treasury.NumberSlot(2), 3
	f.Transfers[0].Slot = treasury.NumberSlot(2)
	reverted := SentTransaction{TxHash: "0x1", Slot: treasury.NumberSlot(1), To: at, Reverted: true}
	f.Live.Sent = slices.Insert(f.Live.Sent, 2, reverted)
	f.Transfers = append(f.Transfers, Transfer{"tr_0", []string{"po_live"}, treasury.NumberSlot(1), treasury.TransferStateReverted, "0x1", []string{"0x1"}})
	f.Transfers[0].Versions = []string{"0x2"}
}

// unpaid lets the live payout fail before anything was signed.
func (f *Facts) unpaid() {
	p := f.payout("po_live")
	p.Status, p.Transfers, f.eventOf("evt_live_sent").Type = checkout.PayoutFailed, 0, webhook.PayoutFailed
	f.Transfers, f.Live.Sent, f.Live.Nonce = f.Transfers[1:], f.Live.Sent[:2], 1
	f.Live.Balances[shop][money.USDC] = new(big.Int)
}

// giveBack gives the live payment back to the customer.
func (f *Facts) giveBack() {
	f.unpaid()
	f.payout("po_live").GivenBack = true
	f.refund("re_1", 1050)
	f.charge(acquirer.ChargeFact{})
}

// refund gives a part of the live payment back.
func (f *Facts) refund(id string, amount int64) {
	f.Refunds = append(f.Refunds, Refund{id, "txn_live", amount})
	f.Live.Charges[1].Refunded, f.Ledger[0].Amount = amount, strconv.FormatInt(1050-amount, 10)
}

// lose adds a payment that was paid out with 3 USDC, and whose rows a restore has taken.
func (f *Facts) lose() {
	f.Live.Lost = []Span{{noon.Add(-time.Minute), noon}}
	f.Live.Known = map[string]LostPayout{
		"po_gone": {"po_gone", "txn_gone", shop, money.USDC, "3", []string{"0xgone", "0xgone2"}},
	}
	f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{TxHash: "0xgone", Slot: treasury.NumberSlot(2)}), 3
	f.Live.Balances[shop][money.USDC] = big.NewInt(14_000_000)
	f.charge(acquirer.ChargeFact{ID: "ch_gone", TransactionID: "txn_gone", Amount: 300, Currency: "eur", Paid: true})
}

func TestForget_WhatARestoreHasTaken(t *testing.T) {
	t.Parallel()
	f := &Facts{Live: &Live{Siege: Siege{Lost: []Span{{noon, noon.Add(time.Minute)}}}}}
	for _, at := range []time.Duration{-time.Second, time.Second, time.Hour} {
		f.Requests = append(f.Requests, devstack.LoggedRequest{At: noon.Add(at)})
		f.Calls = append(f.Calls, Call{At: noon.Add(at), EndedAt: noon.Add(at), Status: 200, Told: checkout.StatusCompleted})
	}
	f.forget()
	require.Len(t, f.Requests, 2)
	require.Equal(t, []string{CallOK, CallUnknown, CallOK}, []string{f.Calls[0].Outcome(), f.Calls[1].Outcome(), f.Calls[2].Outcome()})
	require.Empty(t, f.Calls[1].Told)
}

func TestWaits_ComparesThePayoutsOfASiegeWithTheOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		calm, besieged, last time.Duration // last: of one fifth in the siege
		change               func(*Live)
		violated             bool
	}{
		{"all wait for the enemy", 20 * time.Second, 161 * time.Second, 161 * time.Second, nil, true},
		{"some wait for the enemy", 20 * time.Second, 20 * time.Second, time.Hour, nil, true},
		{"not twice as long and a fault's hold", 20 * time.Second, 159 * time.Second, 159 * time.Second, nil, false},
		{"the enemy's own wait", 20 * time.Second, time.Hour, time.Hour, func(l *Live) { l.Hostile = "mer_2" }, false},
		{"an operator had stopped the treasury", 20 * time.Second, time.Hour, time.Hour, func(l *Live) { l.Halts = l.Sieges }, false},
	} {
		f := newFacts()
		for n := range 100 {
			p, at, after := *f.payout("po_live"), noon.Add(-2*time.Hour), c.calm
			switch {
			case n%10 == 0:
				at, after = noon.Add(-time.Minute), c.last
			case n%2 == 0:
				at, after = noon.Add(-time.Minute), c.besieged
			}
			p.CreatedAt, p.SentAt = at, new(at.Add(after))
			f.Payouts = append(f.Payouts, p)
		}
		if c.change != nil {
			c.change(f.Live)
		}
		var r Result
		newWorld(f).waits(&r)
		require.Equal(t, c.violated, len(r.Violations) > 0, c.name)
	}
}
