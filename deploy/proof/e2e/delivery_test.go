package e2e_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
)

// TestDelivery_WaitsTheScheduleFailsAndIsReplayed runs the whole life of a
// delivery on the shared stack's schedule of 1, 2, 3, 4 and 5 seconds.
func TestDelivery_WaitsTheScheduleFailsAndIsReplayed(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	m.Receiver.Answer(http.StatusInternalServerError)
	id := m.Create(e2e.Terms)
	m.MustPay(id, e2e.CardDeclined) // one event only
	delivery := e2e.DeliveryOf(t, e2e.Shared, id, "checkout.failed")
	e2e.Await(t, "the delivery is permanently failed", 40*time.Second, func() bool { return e2e.DeliveryStatus(t, delivery) == "failed" })

	got, _ := m.Receiver.Arrivals()
	require.Len(t, got, 6)
	for i, a := range got {
		require.NoError(t, a.Signature)
		require.Equal(t, strconv.Itoa(i+1), a.Attempt)
		require.Equal(t, got[0].Body, a.Body, "the same bytes")
		if i > 0 {
			gap := a.At.Sub(got[i-1].At)
			require.GreaterOrEqual(t, gap, time.Duration(i)*time.Second, "gap %d", i)
			require.Less(t, gap, time.Duration(i)*time.Second+2*time.Second, "gap %d", i)
		}
	}
	e2e.Await(t, "the run is Failed", 10*time.Second, func() bool {
		run, err := c.DescribeWorkflowExecution(t.Context(), delivery, "")
		return err == nil && run.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	})

	// Replay by an engineer: checkout replay whd_….
	m.Receiver.Answer(http.StatusOK)
	out, err := e2e.CheckoutCommand(t, e2e.Shared, "replay", delivery)
	require.NoError(t, err, out)
	require.Contains(t, out, "started run 2 of "+delivery)
	e2e.Await(t, "the replay is delivered", 10*time.Second, func() bool { return e2e.DeliveryStatus(t, delivery) == "delivered" })
	again, _ := m.Receiver.Arrivals()
	require.Len(t, again, 7)
	require.Equal(t, got[0].Body, again[6].Body, "the same event, byte for byte")
	require.Equal(t, "1", again[6].Attempt, "attempts are numbered per run")
}

func TestReplay_TellsWhyItCannot(t *testing.T) {
	t.Parallel()
	out, err := e2e.CheckoutCommand(t, e2e.Shared, "replay", checkout.NewID(checkout.PrefixDelivery))
	require.Error(t, err)
	require.Contains(t, out, "there is no delivery whd_")
	out, err = e2e.CheckoutCommand(t, e2e.Shared, "replay", "cs_1")
	require.Error(t, err)
	require.Contains(t, out, "not a valid id: expected whd_ and 26 characters")

	m := e2e.NewMerchant(t, e2e.Shared)
	m.Receiver.Answer(http.StatusInternalServerError)
	id := m.Create(e2e.Terms)
	m.MustPay(id, e2e.CardDeclined)
	out, err = e2e.CheckoutCommand(t, e2e.Shared, "replay", e2e.DeliveryOf(t, e2e.Shared, id, "checkout.failed"))
	require.Error(t, err)
	require.Contains(t, out, "still in progress")
}

func TestSessionsOwnAddress_IsSignedByTheRegistrationsSecret(t *testing.T) {
	t.Parallel()
	m, other := e2e.NewMerchant(t, e2e.Shared), e2e.NewMerchant(t, e2e.Shared)
	// The other merchant's server stands for this merchant's second address.
	created := m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout", `{"amount": 10, "currency": "EUR", "payout_currency": "USDC",
		"webhook_url": "`+other.URL+`"}`)
	require.Nil(t, created.Field("webhook_secret"), "a registration's secret signs")
	id := created.Field("id").(string)
	m.MustPay(id, e2e.CardSucceeds)
	for _, a := range other.Arrivals(2, 10*time.Second) {
		require.ErrorContains(t, a.Signature, "does not match", "not the other's secret")
	}
	e2e.Await(t, "the payout is told", 10*time.Second, func() bool { return m.Session(id).Field("payout.status") == "sent" })
	got, _ := m.Receiver.Arrivals()
	require.Empty(t, got, "webhook_url replaces the registrations")
	for _, typ := range []string{"checkout.completed", "payout.sent"} {
		e2e.Excuse(t, 11, e2e.DeliveryOf(t, e2e.Shared, id, typ), "the other merchant's server does not know the secret")
	}
}
