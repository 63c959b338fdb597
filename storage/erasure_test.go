package storage_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// tablesWith returns the tables that have a text in any column, of whatever type.
func (f fixture) tablesWith(t *testing.T, text string) (tables []string) {
	conn := f.Connect(t)
	rows, err := conn.Query(t.Context(), `
		SELECT c.table_name, array_agg(c.column_name::text) FILTER (WHERE c.data_type = 'bytea')
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' GROUP BY 1 ORDER BY 1`)
	require.NoError(t, err)
	bytesOf := map[string][]string{}
	var (
		table   string
		columns []string
	)
	_, err = pgx.ForEachRow(rows, []any{&table, &columns}, func() error {
		bytesOf[table] = columns
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(bytesOf), 25)
	for table, columns := range bytesOf {
		where := `strpos(replace(lower(r::text), '%40', '@'), $1) > 0`
		for _, column := range columns {
			where += fmt.Sprintf(` OR strpos(lower(encode(%s, 'escape')), $1) > 0`, column)
		}
		var found bool
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM `+table+` r WHERE `+where+`)`, text).Scan(&found))
		if found {
			tables = append(tables, table)
		}
	}
	return tables
}

const erasedEmail = "Ann.Canary@example.com"

// customer creates a paid session with the customer's address wherever it can be, its delivery delivered.
func (f fixture) customer(t *testing.T, e webhook.Endpoint) checkout.Session {
	n := f.newSession()
	email, order := erasedEmail, "order-77"
	redirect, hook := "https://shop.example/thanks?for=ann.canary%40example.com", "https://shop.example/hook?for="+erasedEmail
	n.CustomerEmail, n.RedirectURL, n.WebhookURL, n.OrderID = &email, &redirect, &hook, &order
	n.CancelURL, n.Description = &redirect, &hook
	n.LineItems = []checkout.LineItem{{Name: "Ticket for " + erasedEmail, Quantity: 1, UnitAmount: n.Amount, ImageURL: &redirect}}
	n.Metadata = json.RawMessage(`{"order_id": "order-77", "who": ["Ann.Canary@example.com"], "phone": "5551234"}`)
	n.Secret = webhook.NewSecret()
	s := f.create(t, n)
	method := checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 7, ExpYear: 2031, Country: "DE"}
	id := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{Method: method, CustomerEmail: &email}, "")
	_, err := f.Sandbox.CreateSandboxCharge(t.Context(), storage.SandboxCharge{
		TransactionID: id, SessionID: s.ID, Method: method, Amount: s.Amount, Currency: s.Currency, ReturnURL: redirect,
	})
	require.NoError(t, err)
	f.record(t, s, id, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	settled := must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
	f.Exec(t, `UPDATE payout SET status = 'sent', sent_at = now() WHERE id = $1`, settled.PayoutID)
	request := storage.IdempotentRequest{Owner: s.Owner, Route: "POST /v1/checkout", Key: s.ID}
	_, _, err = f.Requests.ClaimRequest(t.Context(), request, []byte("body"))
	require.NoError(t, err)
	require.NoError(t, f.Requests.LogRequests(t.Context(), []merchant.APIRequest{{
		Ref: s.Owner.Ref(checkout.NewID(checkout.PrefixRequest)), SessionID: s.ID, CreatedAt: s.CreatedAt,
	}}))
	body := must.Get(json.Marshal(map[string]any{"id": s.ID, "amount": 10.5, "customer_email": email}))(t)
	require.NoError(t, f.Requests.KeepAnswer(t.Context(), request, storage.KeptAnswer{Status: 201, Location: "/v1/checkout/" + s.ID, Body: body}))
	return s
}

// deliver ends the deliveries of a session. The receiver says whose they were.
func (f fixture) deliver(t *testing.T, s checkout.Session) {
	id := f.query(t, `SELECT d.id FROM webhook_delivery d JOIN event e ON e.id = d.event_id WHERE e.session_id = $1`, s.ID).(string)
	ref := s.Owner.Ref(id)
	f.begin(t, ref, "run-"+id, 1)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, webhook.Attempt{
		Run: 1, Number: 1, Finished: true, StatusCode: 200, ResponseBody: []byte("thanks, " + erasedEmail),
	}, 0))
}

// erase erases the customer, or counts what it would change.
func (f fixture) erase(t *testing.T, apply bool) storage.Erasure {
	audited := func(ref checkout.Ref) merchant.AuditEntry {
		return merchant.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: ref.MerchantID, Mode: &ref.Mode,
			Actor: "operator", Action: "customer.erased", Subject: ref.ID}
	}
	return must.Get(f.Customers.EraseCustomer(t.Context(), f.merchant.ID, erasedEmail, apply, audited))(t)
}

func TestEraseCustomer_LeavesTheAddressInNoTable(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	done := f.customer(t, e)
	f.deliver(t, done)
	f.Exec(t, `UPDATE checkout_session SET order_id = 'order-78'`)
	waiting := f.customer(t, e) // its delivery is not delivered
	f.Exec(t, `UPDATE checkout_session SET order_id = 'order-79' WHERE id = $1`, waiting.ID)
	pending := f.newSession()
	email := strings.ToUpper(erasedEmail)
	pending.CustomerEmail = &email
	open := f.create(t, pending)
	other := f.newSession()
	neighbour := "ben@example.com"
	other.CustomerEmail = &neighbour
	kept := f.create(t, other)

	canary := strings.ToLower(erasedEmail)
	full := []string{"checkout_session", "event", "picture", "sandbox_charge", "transaction", "webhook_attempt", "webhook_delivery", "webhook_endpoint"}
	require.ElementsMatch(t, full, f.tablesWith(t, canary), "the search works")
	want := map[string]int{"checkout_session": 1, "transaction": 1, "event": 1, "sandbox_charge": 1,
		"webhook_attempt": 1, "webhook_delivery": 1, "webhook_endpoint": 1, "idempotent_request": 1, "picture": 1}

	dry := f.erase(t, false)
	require.Equal(t, want, dry.Rows)
	require.ElementsMatch(t, full, f.tablesWith(t, canary), "a dry run changes nothing")

	first := f.erase(t, true)
	require.Equal(t, dry, first, "the dry run told the truth")
	require.Equal(t, []checkout.Ref{done.Ref}, first.Sessions)
	require.Len(t, first.Open, 2)
	require.Contains(t, first.Open[0].Why, "is not delivered")
	require.Equal(t, waiting.ID, first.Open[0].ID)
	require.NotNil(t, first.Open[0].Until)
	require.Equal(t, "the session is pending", first.Open[1].Why)
	require.True(t, open.ExpiresAt.Equal(*first.Open[1].Until))

	again := f.erase(t, true)
	require.Empty(t, again.Sessions)
	require.Equal(t, first.Open, again.Open)

	f.deliver(t, waiting)
	must.Get(f.Sessions.ExpireSession(t.Context(), open.Ref, storage.Expiry{At: open.ExpiresAt, Early: true}))(t)
	require.Len(t, f.erase(t, true).Sessions, 2)
	require.Empty(t, f.tablesWith(t, canary))
	require.Empty(t, f.tablesWith(t, "5551234"), "metadata")
	require.Equal(t, storage.Erasure{Rows: map[string]int{}}, f.erase(t, true), "a repeat finds nothing")
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'customer.erased'`))

	// The books, the order id, the log of requests and the neighbour are as before.
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM api_request WHERE session_id = $1`, done.ID))
	got := must.Get(f.Sessions.Session(t.Context(), done.Ref))(t)
	require.EqualValues(t, 1050, got.Amount)
	require.JSONEq(t, `{"order_id": "order-77"}`, string(got.Metadata))
	require.Equal(t, "visa", f.query(t, `SELECT payment_method->>'brand' FROM transaction WHERE session_id = $1`, done.ID))
	require.Equal(t, "0000", f.query(t, `SELECT payment_method->>'last4' FROM transaction WHERE session_id = $1`, done.ID))
	body := f.query(t, `SELECT body FROM event WHERE session_id = $1`, done.ID).([]byte)
	require.Contains(t, string(body), `"amount":10.50`)
	require.NotContains(t, string(body), `"4242"`) // an id may contain 4242
	answer, _, err := f.Requests.ClaimRequest(t.Context(),
		storage.IdempotentRequest{Owner: done.Owner, Route: "POST /v1/checkout", Key: done.ID}, []byte("body"))
	require.NoError(t, err)
	require.JSONEq(t, `{"id": "`+done.ID+`", "amount": 10.5, "customer_email": null}`, string(answer.Body))
	require.Equal(t, &neighbour, must.Get(f.Sessions.Session(t.Context(), kept.Ref))(t).CustomerEmail)
	require.NotEmpty(t, f.tablesWith(t, neighbour))
}

// A key of test mode that has the address once kept every answer of live mode as it was.
func TestEraseCustomer_AKeyWithTheAddressKeepsNoOtherAnswer(t *testing.T) {
	f := newFixture(t)
	keep := func(mode checkout.Mode, key string) {
		r := storage.IdempotentRequest{Owner: f.merchant.Owner(mode), Route: "POST /v1/checkout", Key: key}
		_, _, err := f.Requests.ClaimRequest(t.Context(), r, []byte("body"))
		require.NoError(t, err)
		answer := storage.KeptAnswer{Status: 201, Body: []byte(`{"customer_email": "` + erasedEmail + `"}`)}
		require.NoError(t, f.Requests.KeepAnswer(t.Context(), r, answer))
	}
	keep(checkout.ModeTest, "for-"+erasedEmail)
	keep(checkout.ModeLive, "order-1")

	got := f.erase(t, true)
	require.Equal(t, map[string]int{"idempotent_request": 2}, got.Rows)
	require.Len(t, got.Open, 1, "the key")
}

// TestEraseCustomer_FindsTheAddressBesideAnyNumber: jsonb takes no number beyond PostgreSQL's numeric, not even a zero.
func TestEraseCustomer_FindsTheAddressBesideAnyNumber(t *testing.T) {
	f := newFixture(t)
	var want []string
	for _, metadata := range []string{
		`{"a": 0e-20000}`, `{"a": 0e2000000000, "b": true}`, `{"a": "Ann.Canary\u0040example.com", "b": 0e-20000}`,
		`{"ann.canary%40example.com": -0E99999999999}`, `{}`,
	} {
		n := f.newSession()
		n.Metadata = json.RawMessage(metadata)
		s := f.create(t, n)
		must.Get(f.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true}))(t)
		if strings.Contains(strings.ToLower(metadata), "canary") {
			want = append(want, s.ID)
		}
	}
	var erased []string
	for _, ref := range f.erase(t, true).Sessions {
		erased = append(erased, ref.ID)
	}
	require.ElementsMatch(t, want, erased, "ids of one millisecond have no order")
	require.Empty(t, f.tablesWith(t, "ann.canary"))
}
