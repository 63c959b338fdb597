package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// SessionFilter selects sessions. An empty field selects all.
type SessionFilter struct {
	Status   checkout.Status
	OrderID  string // metadata.order_id, with or without the order id guard
	Currency money.Currency
	// Transaction is the id of a payment of the session.
	Transaction string
	// CustomerEmail is the address that the merchant or the customer gave. Upper and lower case do not matter.
	CustomerEmail string
	// Metadata are pairs that the session's metadata has. No index has them, so the page must be short in time.
	Metadata map[string]string
	// Search is a session id, payment id or payout id, the beginning of an order id or of a customer's
	// e-mail address in any case, or the last four digits of a card. What is shorter than minPrefix must
	// be the whole of it. An amount, such as "EUR 19.99", and metadata, such as "color:red", are found among the newest
	// 50,000 sessions before the end of the page.
	Search string
}

// A search for a beginning of fewer characters would find too much.
const minPrefix = 3

// found selects the ids of the sessions that match a search. $3 is the search and $4 what follows it at
// most: "" to find only the whole. Each part uses an index and finds at most 10,000.
const found = `
	SELECT id FROM checkout_session WHERE merchant_id = $1 AND mode = $2 AND id = $3
	UNION SELECT session_id FROM transaction WHERE merchant_id = $1 AND mode = $2 AND id = $3
	UNION SELECT session_id FROM payout WHERE merchant_id = $1 AND mode = $2 AND id = $3 AND session_id IS NOT NULL
	UNION (SELECT id FROM checkout_session WHERE merchant_id = $1 AND mode = $2
		AND metadata->>'order_id' ~>=~ $3 AND metadata->>'order_id' ~<=~ ($3 || $4) LIMIT 10000)
	UNION (SELECT id FROM checkout_session WHERE merchant_id = $1 AND mode = $2
		AND lower(customer_email) ~>=~ lower($3) AND lower(customer_email) ~<=~ (lower($3) || $4) LIMIT 10000)
	UNION (SELECT session_id FROM transaction WHERE merchant_id = $1 AND mode = $2
		AND lower(customer_email) ~>=~ lower($3) AND lower(customer_email) ~<=~ (lower($3) || $4) LIMIT 10000)
	UNION (SELECT session_id FROM transaction WHERE merchant_id = $1 AND mode = $2
		AND payment_method->>'last4' = $3 ORDER BY session_id DESC LIMIT 10000)`

// foundRecent selects more sessions for a search; the condition is about what no index has. So it reads 50,000 at most.
const foundRecent = `
	UNION (SELECT id FROM (
		SELECT * FROM checkout_session WHERE merchant_id = $1 AND mode = $2 AND id < ? ORDER BY id DESC LIMIT 50000
	) recent WHERE %s ORDER BY id DESC LIMIT 10000)`

var amountSearch = regexp.MustCompile(`^(?:([A-Z]{3}) )?([\d,]+(?:\.\d{2})?)(?: ([A-Z]{3}))?$`)

// searchRecent returns the conditions of a search by what no index has, with ? for args; "" for none.
func searchRecent(search string) (condition string, args []any) {
	parts := amountSearch.FindStringSubmatch(strings.ToUpper(search))
	if parts == nil {
		key, value, pair := strings.Cut(search, ":")
		if !pair || key == "" {
			return "", nil
		}
		return "metadata->>?::text = ?", []any{key, strings.TrimSpace(value)}
	}
	amount, err := money.ParseAmount(strings.ReplaceAll(parts[2], ",", ""))
	currency := cmp.Or(parts[1], parts[3])
	switch {
	case err != nil || currency == "" && !strings.Contains(parts[2], "."): // four digits are those of a card
		return "", nil
	case currency == "":
		return "amount = ?", []any{amount}
	}
	return "amount = ? AND currency = ?", []any{amount, currency}
}

// lastRune is the highest character: no text that begins with a prefix comes after the prefix and it.
const lastRune = string(utf8.MaxRune)

// ofCustomer selects the ids of the sessions of an e-mail address (?). Each part uses an index.
const ofCustomer = `
	SELECT id FROM checkout_session WHERE merchant_id = $1 AND mode = $2 AND lower(customer_email) = lower(?)
	UNION SELECT session_id FROM transaction WHERE merchant_id = $1 AND mode = $2 AND lower(customer_email) = lower(?)`

// Sessions lists sessions, newest first, with their decided transactions and their payouts.
func (s *SessionReader) Sessions(
	ctx context.Context, owner checkout.Owner, f SessionFilter, p pg.Page,
) ([]checkout.Session, error) {
	q := pg.NewList(owner, "s")
	if f.Search != "" {
		last := ""
		if utf8.RuneCountInString(f.Search) >= minPrefix {
			last = lastRune
		}
		q.Args = append(q.Args, f.Search, last)
		// Not IN: PostgreSQL must find these few ids before it reads the list.
		ids, args := found, []any(nil)
		if condition, values := searchRecent(f.Search); condition != "" {
			until := p.Until
			if until.IsZero() {
				until = time.Now()
			}
			ids += fmt.Sprintf(foundRecent, condition)
			args = append([]any{checkout.FirstID(checkout.PrefixSession, until.Add(checkout.ClockSkew))}, values...)
		}
		q.Where("s.id = ANY (ARRAY("+ids+"))", args...)
	}

	if f.Transaction != "" {
		q.Where(`s.id = ANY (ARRAY(SELECT session_id FROM transaction WHERE merchant_id = $1 AND mode = $2 AND id = ?))`,
			f.Transaction)
	}
	if f.CustomerEmail != "" {
		q.Where("s.id = ANY (ARRAY("+ofCustomer+"))", f.CustomerEmail, f.CustomerEmail)
	}

	switch f.Status {
	case "":
	case checkout.StatusExpired:
		q.Where(`(s.status = 'expired' OR ` + pastItsTime + `)`)
	default:
		q.Where(`s.status <> 'expired' AND s.status = ? AND NOT (`+pastItsTime+`)`, f.Status)
	}

	q.Equal("s.metadata->>'order_id'", f.OrderID)
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		q.Where("s.metadata->>?::text = ?", key, f.Metadata[key])
	}
	q.Equal("s.currency", string(f.Currency))
	q.Page(checkout.PrefixSession, "s", p)
	sessions, err := pg.Collect[checkout.Session](ctx, s.pool, `
		SELECT `+sessionColumns+` FROM checkout_session s `+q.SQL, q.Args...)
	if err != nil {
		return nil, pg.Wrap("sessions", err)
	}
	return sessions, s.readPayments(ctx, sessions, true)
}
