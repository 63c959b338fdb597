package invariant

import (
	"math/big"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/acquirer"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const shop = "0x00000000000000000000000000000000000A11cE"

// addLive adds a live session that was paid with 10.50 EUR and paid out 11 USDC, with the second
// version of its transfer. The first transaction of the treasury was a thief's.
func (f *Facts) addLive() {
	made := noon.Add(-10 * time.Minute)
	f.Sessions = append(f.Sessions, Session{
		ID: "cs_live", MerchantID: "mer_2", Mode: checkout.ModeLive, Status: checkout.StatusCompleted, Key: "", Amount: 1050,
		Currency: checkout.EUR, CreatedAt: made, ExpiresAt: made.Add(time.Hour), EndedAt: new(made.Add(time.Minute)),
	})
	f.Transactions = append(f.Transactions, Transaction{
		ID: "txn_live", SessionID: "cs_live", MerchantID: "mer_2", Mode: checkout.ModeLive, Status: checkout.TransactionSucceeded,
		SessionStatus: checkout.StatusCompleted, CreatedAt: made, CompletedAt: new(made.Add(time.Minute)),
	})
	f.Payouts = append(f.Payouts, Payout{
		ID: "po_live", SessionID: "cs_live", TransactionID: "txn_live", MerchantID: "mer_2", Mode: checkout.ModeLive,
		Status: checkout.PayoutSent, Generation: 1, Currency: checkout.USDC, Amount: "11", Destination: shop, Transfers: 1,
	})
	for id, e := range map[string]Event{
		"evt_live_paid": {Type: webhook.CheckoutCompleted, SubjectID: "txn_live"},
		"evt_live_sent": {Type: webhook.PayoutSent, SubjectID: "po_live"},
	} {
		e.ID, e.MerchantID, e.Mode, e.SessionID, e.CreatedAt = id, "mer_2", checkout.ModeLive, "cs_live", noon.Add(-2*time.Hour)
		f.Events = append(f.Events, e)
	}
	f.SessionRuns = append(f.SessionRuns, Run{
		WorkflowID: "cs_live", RunID: "r-live", Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, StartedAt: made, Last: true,
		Result: string(checkout.StatusCompleted),
	})
	f.Transfers = []Transfer{{
		ID: "tr_1", PayoutID: "po_live", Nonce: 1, Status: storage.TransferConfirmed, TxHash: "0x2", Versions: []string{"0x1", "0x2"},
	}}
	f.Ledger = []LedgerBalance{
		{"acquirer:receivable", "EUR", "1050"}, {"transit", "USDC", "0"}, {"wallet", "ETH", "7"}, {"wallet", "USDC", "5000000"},
	}
	units := func(eth, usdc, usdt int64) map[checkout.PayoutCurrency]*big.Int {
		return map[checkout.PayoutCurrency]*big.Int{
			checkout.ETH: big.NewInt(eth), checkout.USDC: big.NewInt(usdc), checkout.USDT: big.NewInt(usdt),
		}
	}
	f.Live = &Live{
		Intents: []acquirer.IntentFact{{ID: "pi_1", TransactionID: "txn_live", Status: "succeeded", Amount: 1050, Currency: "eur"}},
		Charges: []acquirer.ChargeFact{
			{ID: "ch_0", IntentID: "pi_1", TransactionID: "txn_live", Amount: 1050, Currency: "eur"},
			{ID: "ch_1", IntentID: "pi_1", TransactionID: "txn_live", Amount: 1050, Currency: "eur", Paid: true},
		},
		Sent: []SentTransaction{{"0xbad", 0}, {"0x2", 1}}, Nonce: 2, Treasury: units(7, 5_000_000, 0),
		Balances: map[string]map[checkout.PayoutCurrency]*big.Int{shop: units(0, 11_000_000, 0)},
		Thefts:   []Theft{{"0xbad", "no transfer explains it"}},
	}
	f.addLiveCharges()
}

func (f *Facts) payout(id string) *Payout {
	return &f.Payouts[slices.IndexFunc(f.Payouts, func(p Payout) bool { return p.ID == id })]
}

// charge adds a charge of the double.
func (f *Facts) charge(c acquirer.ChargeFact) {
	f.Live.Charges = append(f.Live.Charges, c)
	f.Charges = slices.DeleteFunc(f.Charges, func(c Charge) bool { return c.SessionID == "cs_live" })
	f.addLiveCharges()
}

// liveCases are cases of TestCheck_NamesExactlyWhatIsBroken.
var liveCases = []brokenCase{
	// 5
	{"5: a live session was charged twice", func(f *Facts) {
		f.charge(acquirer.ChargeFact{ID: "ch_2", TransactionID: "txn_live", Amount: 1050, Currency: "eur", Paid: true})
		f.Ledger[0].Amount = "2100"
	}, []string{"5 cs_live"}},
	{"5: and one charge went back", func(f *Facts) {
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_gone", SessionID: "cs_live", MerchantID: "mer_2", Mode: checkout.ModeLive,
			Status: "created", CreatedAt: noon})
		f.session("cs_live").Status = checkout.StatusCompleted
		f.charge(acquirer.ChargeFact{ID: "ch_2", TransactionID: "txn_gone", Amount: 1050, Currency: "eur", Paid: true, Refunded: 1050})
	}, []string{"23 cs_live"}},
	{"5: a live session is completed and was not charged", func(f *Facts) {
		f.Live.Charges, f.Ledger[0].Amount = nil, "0"
		f.charge(acquirer.ChargeFact{ID: "ch_1", TransactionID: "txn_live", Amount: 1050, Currency: "eur"})
	}, []string{"5 cs_live"}},
	{"5: nobody knows what a live session was charged", func(f *Facts) {
		f.Live.Charges = nil
		f.charge(acquirer.ChargeFact{})
		f.Live = nil
	}, nil},

	// 17
	{"17: a live payout has two transfers that stand", func(f *Facts) { f.payout("po_live").Transfers = 2 }, []string{"17 po_live"}},
	{"17: a live payout was sent without a transfer", func(f *Facts) { f.payout("po_live").Transfers = 0 }, []string{"17 po_live"}},
	{"17: a retried live payout says that it failed before", func(f *Facts) {
		f.payout("po_live").Generation = 2
		e := *f.eventOf("evt_live_sent")
		e.ID, e.Type = "evt_live_failed", webhook.PayoutFailed
		f.Events = append(f.Events, e)
	}, nil},

	// 23
	{"23: charged another amount", func(f *Facts) { f.Live.Charges[1].Amount, f.Ledger[0].Amount = 1051, "1051" }, []string{"23 cs_live"}},
	{"23: charged in another currency", func(f *Facts) {
		f.Live.Charges[1].Currency, f.Ledger[0].Asset = "usd", "USD"
	}, []string{"23 cs_live"}},
	{"23: a completed session whose charge went back in part", func(f *Facts) {
		f.Live.Charges[1].Refunded, f.Ledger[0].Amount = 1, "1049"
	}, []string{"23 cs_live"}},
	{"23: the bank has agreed, and the session has ended", func(f *Facts) {
		f.Live.Intents = append(f.Live.Intents, acquirer.IntentFact{ID: "pi_2", TransactionID: "txn_live", Status: "requires_confirmation"})
	}, []string{"23 pi_2"}},
	{"23: an intent that nobody can confirm", func(f *Facts) {
		f.Live.Intents = append(f.Live.Intents, acquirer.IntentFact{ID: "pi_2", TransactionID: "txn_live", Status: "requires_payment_method"})
	}, nil},

	// 24
	{"24: paid twice", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{"0x1", 2}), 3
		f.Live.Balances[shop][checkout.USDC] = big.NewInt(22_000_000)
	}, []string{"24 " + shop, "24 po_live", "25 tr_1"}},
	{"24: sent and not paid", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = f.Live.Sent[:1], 1
		f.Live.Balances[shop][checkout.USDC] = new(big.Int)
	}, []string{"24 " + shop, "24 po_live", "25 tr_1"}},
	{"24: failed and paid all the same", func(f *Facts) {
		f.payout("po_live").Status, f.payout("po_live").Transfers = checkout.PayoutFailed, 0
		f.eventOf("evt_live_sent").Type = webhook.PayoutFailed
	}, []string{"24 " + shop, "24 po_live"}},
	{"24: the address has one unit less", func(f *Facts) { f.Live.Balances[shop][checkout.USDC] = big.NewInt(10_999_999) }, []string{"24 " + shop}},
	{"24: the address got another currency", func(f *Facts) { f.Live.Balances[shop][checkout.USDT] = big.NewInt(1) }, []string{"24 " + shop}},

	// 25
	{"25: nobody noticed the thief", func(f *Facts) { f.Live.Thefts[0].Froze = "" }, []string{"25 0xbad"}},
	{"25: a transaction of no transfer", func(f *Facts) {
		f.Live.Sent, f.Live.Nonce = append(f.Live.Sent, SentTransaction{"0x9", 2}), 3
	}, []string{"25 0x9"}},
	{"25: confirmed with another version", func(f *Facts) { f.Transfers[0].TxHash = "0x1" }, []string{"25 tr_1"}},
	{"25: still live, and in a block", func(f *Facts) { f.Transfers[0].Status, f.Transfers[0].TxHash = storage.TransferLive, "" }, []string{"25 tr_1"}},
	{"25: a nonce without a transaction", func(f *Facts) { f.Live.Nonce = 3 }, []string{"25 treasury"}},

	// 26
	{"26: the wallet lacks one unit", func(f *Facts) { f.Ledger[3].Amount = "4999999" }, []string{"26 wallet USDC"}},
	{"26: the chain has what the ledger does not", func(f *Facts) { f.Live.Treasury[checkout.USDT] = big.NewInt(1) }, []string{"26 wallet USDT"}},
	{"26: the card network owes more", func(f *Facts) { f.Ledger[0].Amount = "1049" }, []string{"26 acquirer:receivable EUR"}},
	{"26: a charge is settled twice", func(f *Facts) {
		f.Ledger = append(f.Ledger, LedgerBalance{"acquirer:receivable settled", "EUR", "-2100"})
	}, []string{"26 acquirer:receivable EUR"}},
	{"26: a charge is settled", func(f *Facts) {
		f.Ledger = append(f.Ledger, LedgerBalance{"acquirer:receivable settled", "EUR", "-1050"})
	}, nil},
	{"26: something is on its way for ever", func(f *Facts) { f.Ledger[1].Amount = "-11000000" }, []string{"26 transit USDC"}},
	{"26: an entry is not balanced", func(f *Facts) { f.Unbalanced = []string{"charge of txn_live by 1 EUR"} }, []string{"26 ledger"}},
}
