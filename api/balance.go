package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// ownBalances is the answer to GET /v1/balance.
type ownBalances struct {
	Livemode bool               `json:"livemode"`
	Balances []checkout.Balance `json:"balances"`
}

// getBalance serves GET /v1/balance.
func (s *Server) getBalance(r *http.Request) (int, any, error) {
	owner := callerFrom(r.Context()).Key.Owner
	got, err := s.Store.Balances.Balance(r.Context(), owner)
	return http.StatusOK, ownBalances{owner.Mode.Live(), got}, err
}

// listBalanceTransactions serves GET /v1/balance/transactions, newest first.
func (s *Server) listBalanceTransactions(r *http.Request) (int, any, error) {
	q := readQuery(r, "type", "currency", "source")
	filter := storage.BalanceFilter{
		Type:     optionalChoice(q, "type", checkout.BalanceTransactionTypes),
		Currency: optionalChoice(q, "currency", money.Currencies),
		Source: optionalID(q, "source",
			checkout.PrefixTransaction, checkout.PrefixPayout, checkout.PrefixRefund, checkout.PrefixDispute),
	}
	return listOf(r, q, checkout.PrefixBalance, filter, s.Store.Balances.Transactions)
}
