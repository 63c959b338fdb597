package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"example.com/checkout/workflows/checkout"
)

// TestDelivery_WaitsTheScheduleFailsAndIsReplayed runs the whole life of a
// delivery on the shared stack's schedule of 1, 2, 3, 4 and 5 seconds.
func TestDelivery_WaitsTheScheduleFailsAndIsReplayed(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	m.receiver.Answer(http.StatusInternalServerError)
	id := m.create(terms)
	m.mustPay(id, cardDeclined) // one event only
	delivery := deliveryOf(t, shared, id, "checkout.failed")
	await(t, "the delivery is permanently failed", 40*time.Second, func() bool { return deliveryStatus(t, delivery) == "failed" })

	got, _ := m.receiver.Arrivals()
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
	await(t, "the run is Failed", 10*time.Second, func() bool {
		run, err := c.DescribeWorkflowExecution(t.Context(), delivery, "")
		return err == nil && run.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	})

	// Replay by an engineer: checkout replay whd_….
	m.receiver.Answer(http.StatusOK)
	out, err := checkoutCommand(t, shared, "replay", delivery)
	require.NoError(t, err, out)
	require.Contains(t, out, "started run 2 of "+delivery)
	await(t, "the replay is delivered", 10*time.Second, func() bool { return deliveryStatus(t, delivery) == "delivered" })
	again, _ := m.receiver.Arrivals()
	require.Len(t, again, 7)
	require.Equal(t, got[0].Body, again[6].Body, "the same event, byte for byte")
	require.Equal(t, "1", again[6].Attempt, "attempts are numbered per run")

	// Replay by an operator: Reset in Temporal's UI.
	_, err = c.WorkflowService().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: shared.Temporal.Namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: delivery},
		Reason: "test", WorkflowTaskFinishEventId: 4, RequestId: delivery,
	})
	require.NoError(t, err)
	m.arrivals(8, 10*time.Second)
	await(t, "the reset is delivered", 10*time.Second, func() bool { return deliveryStatus(t, delivery) == "delivered" })
	require.Equal(t, 3, query[int](t, shared, `SELECT run FROM webhook_delivery WHERE id = $1`, delivery))
	require.Equal(t, 8, query[int](t, shared, `SELECT count(*) FROM webhook_attempt WHERE delivery_id = $1 AND duration_ms IS NOT NULL`, delivery))
}

func TestReplay_TellsWhyItCannot(t *testing.T) {
	t.Parallel()
	out, err := checkoutCommand(t, shared, "replay", checkout.NewID(checkout.PrefixDelivery))
	require.Error(t, err)
	require.Contains(t, out, "there is no delivery whd_")
	out, err = checkoutCommand(t, shared, "replay", "cs_1")
	require.Error(t, err)
	require.Contains(t, out, "usage: checkout replay whd_")

	m := newMerchant(t, shared)
	m.receiver.Answer(http.StatusInternalServerError)
	id := m.create(terms)
	m.mustPay(id, cardDeclined)
	out, err = checkoutCommand(t, shared, "replay", deliveryOf(t, shared, id, "checkout.failed"))
	require.Error(t, err)
	require.Contains(t, out, "still in progress")
}

func TestSessionsOwnAddress_IsSignedByTheRegistrationsSecret(t *testing.T) {
	t.Parallel()
	m, other := newMerchant(t, shared), newMerchant(t, shared)
	// The other merchant's server stands for this merchant's second address.
	created := m.must(http.StatusCreated, http.MethodPost, "/v1/checkout", `{"amount": 10, "currency": "EUR", "payout_currency": "USDC",
		"webhook_url": "`+other.url+`"}`)
	require.Nil(t, created.field("webhook_secret"), "a registration's secret signs")
	id := created.field("id").(string)
	m.mustPay(id, cardSucceeds)
	for _, a := range other.arrivals(2, 10*time.Second) {
		require.ErrorContains(t, a.Signature, "does not match", "not the other's secret")
	}
	await(t, "the payout is told", 10*time.Second, func() bool { return m.session(id).field("payout.status") == "sent" })
	got, _ := m.receiver.Arrivals()
	require.Empty(t, got, "webhook_url replaces the registrations")
	for _, typ := range []string{"checkout.completed", "payout.sent"} {
		excuse(t, 11, deliveryOf(t, shared, id, typ), "the other merchant's server does not know the secret")
	}
}

func TestLiveKey_IsNeverATestCharge(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	m.key = checkout.NewAPIKey(checkout.ModeLive)
	require.NoError(t, openStore(t, shared).CreateAPIKey(t.Context(), checkout.APIKey{
		ID: checkout.NewID(checkout.PrefixAPIKey), MerchantID: m.id, Mode: checkout.ModeLive, Label: "live",
	}, m.key))
	refused := m.must(http.StatusForbidden, http.MethodPost, "/v1/checkout", terms)
	require.Equal(t, "forbidden", refused.field("error"))
	plain := m.must(http.StatusBadRequest, http.MethodPost, "/v1/webhooks", `{"url": "http://shop.example/", "events": ["*"]}`)
	require.Equal(t, "url", plain.field("param"))
	inside := m.must(http.StatusBadRequest, http.MethodPost, "/v1/webhooks", `{"url": "https://127.0.0.1/", "events": ["*"]}`)
	require.Equal(t, "url", inside.field("param"))
}
