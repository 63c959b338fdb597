package api

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

func TestAdvanceSession_ReachesTheExpiryThroughTheWorkflow(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.merchant.testKey)
	var asked []string
	f.temporal.Update = func(o client.UpdateWorkflowOptions) error {
		asked = append(asked, o.UpdateName+" "+o.WorkflowID)
		return f.endsExpired(f.merchant, checkout.ModeTest)(o.WorkflowID)
	}
	for _, body := range []string{"", "{}"} { // a repeat after a lost answer is safe
		got := f.answers(200, "POST", "/v1/test/checkout/"+id+"/advance", f.merchant.testKey, body)
		require.Equal(t, "expired", got.json["status"])
		require.Equal(t, got.body, f.do("GET", "/v1/checkout/"+id, f.merchant.testKey, "").body)
	}
	require.Equal(t, []string{"advance " + id}, asked)
}

func TestAdvanceSession_SaysWhyNot(t *testing.T) {
	f := newFront(t)
	advance := func(id, body string) answer {
		return f.do("POST", "/v1/test/checkout/"+id+"/advance", f.merchant.testKey, body)
	}
	require.Equal(t, 404, advance(checkout.NewID(checkout.PrefixSession), "").status)
	for _, status := range []string{"completed", "failed"} {
		id := f.newSession(f.merchant.testKey)
		f.exec(`UPDATE checkout_session SET status = $1, ended_at = now() WHERE id = $2`, status, id)
		got := advance(id, "")
		require.Equal(t, "409 session_not_pending", got.refused())
		require.Equal(t, status, got.json["status"])
	}
	for _, err := range []error{serviceerror.NewUnavailable("10.1.1.1"), errors.New("inner words"), serviceerror.NewNotFound("closed, but the row is behind")} {
		f.expireAs(func(string) error { return err })
		got := advance(f.newSession(f.merchant.testKey), "")
		require.Equal(t, 503, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
}

func TestAdvanceSession_WithAPaymentInFlightAnswersTheSessionAsItIs(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.merchant.testKey)
	f.temporal.Update = func(client.UpdateWorkflowOptions) error { return nil }
	f.temporal.State = contract.SessionState{Status: checkout.StatusPending, PaymentInFlight: true}
	got := f.answers(200, "POST", "/v1/test/checkout/"+id+"/advance", f.merchant.testKey, "")
	require.Equal(t, "pending", got.json["status"])

	f.expireAs(func(string) error { return temporal.NewApplicationError("no", contract.ErrTypePaymentInFlight) })
	again := f.do("POST", "/v1/test/checkout/"+id+"/advance", f.merchant.testKey, "")
	require.Equal(t, 200, again.status, "the workflow need not be told twice")
	require.Equal(t, got.body, again.body)
}
