package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

func TestExpireSession_PendingThenAgain(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.key)
	calls := 0
	f.expireAs(func(id string) error {
		calls++
		return f.endsExpired(f.merchant, checkout.ModeTest)(id)
	})
	first := f.answers(200, "POST", "/v1/checkout/"+id+"/expire", f.key, "")
	require.Equal(t, "expired", first.json["status"])
	require.Equal(t, id, first.json["id"])
	require.Equal(t, "https://pay.example.com/c/"+id, first.json["url"])
	again := f.answers(200, "POST", "/v1/checkout/"+id+"/expire", f.key, "{}")
	require.Equal(t, first.body, again.body, "a retry after a lost answer is safe")
	require.Equal(t, 1, calls)
	require.Equal(t, []string{"session.expiry_requested"}, f.noted(), "as in the dashboard; a repeat notes nothing")
	require.Equal(t, id+" before its time", f.value(`SELECT subject || ' ' || detail FROM audit_entry`))
	require.Equal(t, first.body, f.do("GET", "/v1/checkout/"+id, f.key, "").body)
}

func TestExpireSession_AnswersFromTheRowWhenTheWorkflowHasEnded(t *testing.T) {
	f := newFront(t)
	refused := func(typ string) error { return temporal.NewApplicationError("no", typ) }
	for name, tc := range map[string]struct {
		err    error
		row    string // what the row is by then
		status int
		code   any
	}{
		"closed, completed":        {serviceerror.NewNotFound("x"), "status = 'completed', ended_at = now()", 409, "session_not_pending"},
		"closed, expired":          {serviceerror.NewNotFound("x"), "status = 'expired', ended_at = now()", 200, nil},
		"closed, past its time":    {serviceerror.NewNotFound("x"), "expires_at = now()", 200, nil},
		"closed, still pending":    {serviceerror.NewNotFound("x"), "attempts = 0", 503, "unavailable"},
		"not pending, failed":      {refused(contract.ErrTypeSessionNotPending), "status = 'failed', ended_at = now()", 409, "session_not_pending"},
		"not pending, row behind":  {refused(contract.ErrTypeSessionNotPending), "attempts = 0", 503, "unavailable"},
		"payment in flight":        {refused(contract.ErrTypePaymentInFlight), "payment_in_flight = true", 409, "payment_in_progress"},
		"Temporal is away":         {serviceerror.NewUnavailable("10.1.1.1 is down"), "attempts = 0", 503, "unavailable"},
		"Temporal is slow":         {context.DeadlineExceeded, "attempts = 0", 503, "unavailable"},
		"Temporal says who knows":  {errors.New("secret inner words"), "attempts = 0", 503, "unavailable"},
		"expired, as it should be": {nil, "status = 'expired', ended_at = now()", 200, nil},
	} {
		id := f.newSession(f.key)
		f.expireAs(func(string) error {
			f.exec(`UPDATE checkout_session SET `+tc.row+` WHERE id = $1`, id)
			return tc.err
		})
		got := f.do("POST", "/v1/checkout/"+id+"/expire", f.key, "")
		require.Equal(t, tc.status, got.status, name)
		require.Equal(t, tc.code, got.json["error"], name)
		require.NotContains(t, got.body, "10.1.1.1")
		require.NotContains(t, got.body, "inner words")
		switch tc.status {
		case 200:
			require.Equal(t, "expired", got.json["status"], name)
		case 503:
			require.Equal(t, "1", got.header.Get("Retry-After"), name)
		}
		if tc.code == "session_not_pending" {
			require.Contains(t, tc.row, "status = '"+got.json["status"].(string)+"'")
			require.Contains(t, got.json["message"], got.json["status"])
		}
		if name == "payment in flight" {
			require.Contains(t, got.json["message"], "in progress")
			require.Equal(t, "pending", got.json["status"])
			require.Equal(t, "5", got.header.Get("Retry-After"))
		}
	}
}

func TestExpireSession_TakesAnEmptyBodyOfAnyType(t *testing.T) { // some clients cannot leave the header out
	f := newFront(t)
	f.expireAs(f.endsExpired(f.merchant, checkout.ModeTest))
	path := "/v1/checkout/" + f.newSession(f.key) + "/expire"
	f.answers(413, "POST", path, f.key, strings.Repeat(" ", 64<<10+1))
	f.answers(415, "POST", path, f.key, "a=b", "Content-Type", "application/x-www-form-urlencoded")
	f.answers(200, "POST", path, f.key, "", "Content-Type", "application/x-www-form-urlencoded")
}

func TestAdvanceSession_ReachesTheExpiryThroughTheWorkflow(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.key)
	var asked []string
	f.temporal.Update = func(o client.UpdateWorkflowOptions) error {
		asked = append(asked, o.UpdateName+" "+o.WorkflowID)
		return f.endsExpired(f.merchant, checkout.ModeTest)(o.WorkflowID)
	}
	for _, body := range []string{"", "{}"} { // a repeat after a lost answer is safe
		got := f.answers(200, "POST", "/v1/test/checkout/"+id+"/advance", f.key, body)
		require.Equal(t, "expired", got.json["status"])
		require.Equal(t, got.body, f.do("GET", "/v1/checkout/"+id, f.key, "").body)
	}
	require.Equal(t, []string{"advance " + id}, asked)
}

func TestAdvanceSession_SaysWhyNot(t *testing.T) {
	f := newFront(t)
	advance := func(id, body string) answer {
		return f.do("POST", "/v1/test/checkout/"+id+"/advance", f.key, body)
	}
	require.Equal(t, 404, advance(checkout.NewID(checkout.PrefixSession), "").status)
	for _, status := range []string{"completed", "failed"} {
		id := f.newSession(f.key)
		f.exec(`UPDATE checkout_session SET status = $1, ended_at = now() WHERE id = $2`, status, id)
		got := advance(id, "")
		require.Equal(t, "409 session_not_pending", got.refused())
		require.Equal(t, status, got.json["status"])
	}
	for _, err := range []error{serviceerror.NewUnavailable("10.1.1.1"), errors.New("inner words"), serviceerror.NewNotFound("closed, but the row is behind")} {
		f.expireAs(func(string) error { return err })
		got := advance(f.newSession(f.key), "")
		require.Equal(t, 503, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
}

func TestAdvanceSession_WithAPaymentInFlightAnswersTheSessionAsItIs(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.key)
	f.temporal.Update = func(client.UpdateWorkflowOptions) error { return nil }
	f.temporal.State = contract.SessionState{Status: checkout.StatusPending, PaymentInFlight: true}
	got := f.answers(200, "POST", "/v1/test/checkout/"+id+"/advance", f.key, "")
	require.Equal(t, "pending", got.json["status"])

	f.expireAs(func(string) error { return temporal.NewApplicationError("no", contract.ErrTypePaymentInFlight) })
	again := f.do("POST", "/v1/test/checkout/"+id+"/advance", f.key, "")
	require.Equal(t, 200, again.status, "the workflow need not be told twice")
	require.Equal(t, got.body, again.body)
}

// TestTimeline_EndsByTheClock: a session past its time reads expired before its workflow writes so. What leads to each
// entry is in workflows/checkout.
func TestTimeline_EndsByTheClock(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.key)
	first, _ := f.pay(id, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureInsufficientFunds})
	f.exec(`UPDATE checkout_session SET expires_at = clock_timestamp() WHERE id = $1`, id)
	byClock := f.do("GET", "/v1/checkout/"+id, f.key, "").json
	entry := func(status string, at any) map[string]any {
		return map[string]any{"status": status, "at": at, "transaction_id": nil, "payout_id": nil, "reason": nil}
	}
	declined := entry("payment_failed", byClock["timeline"].([]any)[1].(map[string]any)["at"])
	declined["transaction_id"], declined["reason"] = first, "insufficient_funds"
	require.Equal(t, []any{
		entry("pending", byClock["created_at"]), declined, entry("expired", byClock["expires_at"]),
	}, byClock["timeline"])
	require.NoError(t, f.endsExpired(f.merchant, checkout.ModeTest)(id))
	byRun := f.do("GET", "/v1/checkout/"+id, f.key, "").json["timeline"].([]any)
	require.Len(t, byRun, 3)
	require.Equal(t, "expired", byRun[2].(map[string]any)["status"])
}
