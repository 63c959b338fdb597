package dashboard

import (
	"slices"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// sessionMoney is how the money of a session moved, for its page.
type sessionMoney struct {
	storage.SessionMoney
	Booked []bookedEntry // oldest first
}

// bookedEntry is an entry of the ledger with its debits and credits.
type bookedEntry struct {
	storage.LedgerEntry
	Lines []bookedLine
}

// bookedLine is a debit or a credit; the other one is "". Amounts are in major units.
type bookedLine struct{ Account, Asset, Debit, Credit string }

// money returns how the money of a session moved.
func (s *server) money(v page.Visit, sessionID string) (sessionMoney, error) {
	got, err := s.Store.Sessions.SessionMoney(v.Context(), v.Owner().Ref(sessionID))
	if err != nil {
		return sessionMoney{}, err
	}
	m := sessionMoney{SessionMoney: got}
	for _, e := range got.Ledger {
		booked := bookedEntry{LedgerEntry: e}
		for _, p := range e.Postings {
			amount, credit, err := p.Decimal()
			if err != nil {
				return sessionMoney{}, err
			}
			line := bookedLine{Account: p.Account, Asset: p.Asset, Debit: amount}
			if credit {
				line.Debit, line.Credit = "", amount
			}
			booked.Lines = append(booked.Lines, line)
		}
		m.Booked = append(m.Booked, booked)
	}
	return m, nil
}

// Charge returns the record of a payment's charge, nil without one.
func (m sessionMoney) Charge(transactionID string) *storage.ChargeRecord {
	i := slices.IndexFunc(m.Charges, func(c storage.ChargeRecord) bool { return c.TransactionID == transactionID })
	if i < 0 {
		return nil
	}
	return &m.Charges[i]
}

// explorers are the sites that show a transaction to people, by chain. A simulated chain has none.
var explorers = map[string]string{"eip155:1": "https://etherscan.io/tx/"}

// Explorer returns the address of a page about a transaction of the transfer's chain, "" without one.
func (sessionMoney) Explorer(t storage.PayoutTransfer, txHash string) string {
	return explorer(t.ChainID, txHash)
}

// explorer returns the address of a page about a transaction of a chain, "" without one.
func explorer(chain, txHash string) string {
	if site := explorers[chain]; site != "" && txHash != "" {
		return site + txHash
	}
	return ""
}

// Native returns the currency in which the transfer's chain takes its fees.
func (sessionMoney) Native(t storage.PayoutTransfer) money.PayoutCurrency {
	return money.NetworkCurrency(t.Network)
}

// holdTexts say why a payout waits. Each continues a sentence that ends with the time of the next try.
var holdTexts = map[checkout.PayoutHold]string{
	checkout.HoldFloat:  "The payout account is short of this currency",
	checkout.HoldLimit:  "The daily payout limit is reached",
	checkout.HoldLarge:  "It is above the payout limit and needs a manual release",
	checkout.HoldFrozen: "Payouts are currently stopped",
	checkout.HoldFee:    "The network fee is currently too high",
	checkout.HoldRate:   "The network fee cannot be priced now",
	checkout.HoldChain:  "The network is currently unreachable",
	checkout.HoldSigner: "The transfer could not be signed",
	checkout.HoldAway:   "The network is currently unreachable",
	checkout.HoldRisk:   "The payment may be returned to the customer",

	checkout.HoldDelay:     "The payment is too recent",
	checkout.HoldUnsettled: "Earlier payments are not settled yet",
	checkout.HoldSuspended: "Payouts are suspended",
}

// HoldText returns why the payout waits, "" when nothing holds it.
func (sessionMoney) HoldText(why checkout.PayoutHold) string { return holdTexts[why] }
