package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

type balancePage struct {
	listing
	Balances     []checkout.Balance
	Transactions []checkout.BalanceTransaction // newest first
}

// listBalance serves GET …/balance.
func (s *server) listBalance(v page.Visit) (page.Answer, error) {
	balances, err := s.balances(v)
	if err != nil {
		return page.Answer{}, err
	}
	shown, p, err := s.balanceTransactions(v).list(v, "balance", checkout.PrefixBalance)
	if err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "balance", "Balance", balancePage{p, balances, shown})
}

// balances returns the balances that are not zero.
func (s *server) balances(v page.Visit) ([]checkout.Balance, error) {
	all, err := s.Store.Balances.Balance(v.Context(), v.Owner())
	zero := func(b checkout.Balance) bool { return b == checkout.Balance{Currency: b.Currency} }
	return slices.DeleteFunc(all, zero), err
}

func (s *server) balanceTransactions(v page.Visit) (l selection[checkout.BalanceTransaction]) {
	l.form = readForm(v.URL.Query(), "type", "currency")
	filter := storage.BalanceFilter{
		Type:     checkout.BalanceTransactionType(l.form.Get("type")),
		Currency: money.Currency(l.form.Get("currency")),
	}
	l.fault = cmp.Or(unknownChoice("change", filter.Type, checkout.BalanceTransactionTypes),
		unknownChoice("currency", filter.Currency, money.Currencies), l.form.days(&l.page))
	l.read = func(p pg.Page) ([]checkout.BalanceTransaction, error) {
		return s.Store.Balances.Transactions(v.Context(), v.Owner(), filter, p)
	}
	return l
}

// sessionParts are the prefixes of what belongs to a session, whose search finds it.
var sessionParts = []string{
	checkout.PrefixTransaction, checkout.PrefixPayout, checkout.PrefixRefund, checkout.PrefixDispute,
}

// Place returns the address that leads to the session of what changed the balance, "" when it belongs to none.
func (balancePage) Place(v page.View, t checkout.BalanceTransaction) string {
	prefix, _, _ := strings.Cut(t.Source, "_")
	if !slices.Contains(sessionParts, prefix) {
		return ""
	}
	return addressOf(v.Path("/sessions"), "search", t.Source)
}
