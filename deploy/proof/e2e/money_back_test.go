package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
)

// owns returns the balance in euros as pending, available and owed.
func owns(m *e2e.Merchant) string {
	var answer struct {
		Balances []struct{ Pending, Available, Owed json.Number }
	}
	if json.Unmarshal(m.Must(http.StatusOK, http.MethodGet, "/v1/balance", "").Body, &answer) != nil || len(answer.Balances) != 1 {
		return ""
	}
	b := answer.Balances[0]
	return fmt.Sprint(b.Pending, " ", b.Available, " ", b.Owed)
}

// TestMoneyBack_InTestMode refunds a paid payout, recovers the debt from the next one, and has a refund returned.
func TestMoneyBack_InTestMode(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	refund := func(session, body string) string {
		return m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout/"+session+"/refund", body).Field("id").(string)
	}
	status := func(id, want string) {
		e2e.Await(t, id+" "+want, 30*time.Second, func() bool {
			return m.Must(http.StatusOK, http.MethodGet, "/v1/refunds/"+id, "").Field("status") == want
		})
	}
	sold := m.Sell(e2e.CardSucceeds) // 10.50 EUR, fee 0.11
	e2e.Await(t, "the payout is sent", 30*time.Second, func() bool { return m.Session(sold).Field("payout.status") == "sent" })
	part := refund(sold, `{"amount": 4.00, "reason": "requested_by_customer"}`)
	status(part, "succeeded")
	require.Equal(t, "0.00 0.00 3.96", owns(m))
	rest := refund(sold, ``)
	status(rest, "succeeded")
	require.Equal(t, "0.00 0.00 10.39", owns(m))
	nothing := m.Must(http.StatusConflict, http.MethodPost, "/v1/checkout/"+sold+"/refund", `{}`)
	require.Equal(t, "refund_exceeds_payment", nothing.Field("error"))

	temporal := e2e.TemporalClient(t, e2e.Shared)
	e2e.AwaitRun(t, temporal, rest, "the run of the refund ends", 30*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)

	kept := m.Sell(e2e.CardSucceeds)
	e2e.Await(t, "the next payout is kept", 30*time.Second, func() bool {
		return m.Session(kept).Field("payout.failure.code") == "recovered"
	})
	require.Equal(t, "0.00 0.00 0.00", owns(m))

	// The bank returns the refund of the next one.
	returned := m.Sell("4000000000005126")
	e2e.Await(t, "the payout is sent", 30*time.Second, func() bool { return m.Session(returned).Field("payout.status") == "sent" })
	third := refund(returned, `{}`)
	status(third, "failed")
	require.Equal(t, "0.00 0.00 0.00", owns(m))

	var types []string
	e2e.Await(t, "all events arrive", 60*time.Second, func() bool {
		types = e2e.Query[[]string](t, e2e.Shared, `
			SELECT array_agg(e.type ORDER BY e.id) FROM event e JOIN webhook_delivery d ON d.event_id = e.id AND d.status = 'delivered'
			WHERE e.merchant_id = $1 AND (e.type LIKE 'refund%' OR e.type LIKE 'payout%')`, m.ID)
		return len(types) == 7
	})
	require.Equal(t, []string{
		"payout.sent", "refund.succeeded", "refund.succeeded", "payout.failed", "payout.sent", "refund.succeeded", "refund.failed",
	}, types)
}

// TestMoneyBack_ADisputeIsOpened takes the payment and the network's fee from the merchant.
func TestMoneyBack_ADisputeIsOpened(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session := m.Sell("4000000000000291")
	var disputes struct {
		Data []struct {
			Status, Reason string
			RespondBy      time.Time `json:"respond_by"`
		}
	}
	e2e.Await(t, "a dispute", 60*time.Second, func() bool {
		list := m.Must(http.StatusOK, http.MethodGet, "/v1/disputes?session="+session, "")
		return json.Unmarshal(list.Body, &disputes) == nil && len(disputes.Data) == 1
	})
	require.Equal(t, []string{"needs_response", "fraudulent"}, []string{disputes.Data[0].Status, disputes.Data[0].Reason})
	require.True(t, disputes.Data[0].RespondBy.After(time.Now()))
	require.Equal(t, "0.00 0.00 25.50", owns(m), "10.50 and a fee of 15.00")
	list := string(m.Must(http.StatusOK, http.MethodGet, "/v1/balance/transactions", "").Body)
	for _, part := range []string{`"type":"dispute","currency":"EUR","amount":-10.50`, `"type":"dispute_fee","currency":"EUR","amount":-15.00`} {
		require.Contains(t, list, part)
	}
	refused := m.Must(http.StatusConflict, http.MethodPost, "/v1/checkout/"+session+"/refund", "{}")
	require.Equal(t, "dispute_open", refused.Field("error"))
}

// TestMoneyBack_EvidenceWinsADispute gives the payment back to the merchant. The network keeps its fee.
func TestMoneyBack_EvidenceWinsADispute(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session := m.Sell("4000000000000291")
	var id string
	e2e.Await(t, "a dispute", 60*time.Second, func() bool {
		id = e2e.Query[string](t, e2e.Shared, `SELECT coalesce(max(dispute_id), '') FROM charge_risk WHERE merchant_id = $1`, m.ID)
		return id != ""
	})
	path := "/v1/disputes/" + id
	hostile := m.Must(http.StatusBadRequest, http.MethodPost, path+"/evidence", `{"files": {"receipt": "PGh0bWw+"}}`)
	require.Equal(t, "files.receipt", hostile.Field("param"))
	body := `{"texts": {"uncategorized_text": "winning_evidence"}, "files": {"receipt": "JVBERi0xLjc="}}`
	m.Must(http.StatusAccepted, http.MethodPost, path+"/evidence", body)
	refused := m.Must(http.StatusConflict, http.MethodPost, path+"/evidence", body)
	require.Equal(t, "evidence_submitted", refused.Field("error"))

	temporal := e2e.TemporalClient(t, e2e.Shared)
	e2e.AwaitRun(t, temporal, id, "the evidence is sent", 30*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	e2e.Await(t, "the dispute is won", 60*time.Second, func() bool {
		return m.Must(http.StatusOK, http.MethodGet, path, "").Field("status") == "won"
	})
	require.NotNil(t, m.Must(http.StatusOK, http.MethodGet, path, "").Field("evidence.sent_at"))
	e2e.Await(t, "the payment is the merchant's", 60*time.Second, func() bool { return owns(m) == "0.00 0.00 15.00" })
	require.NotEqual(t, "disputed", m.Session(session).Field("payout.failure.code"))
	e2e.Await(t, "the event arrives", 60*time.Second, func() bool {
		return e2e.Query[int](t, e2e.Shared, `
			SELECT count(*) FROM event e JOIN webhook_delivery d ON d.event_id = e.id AND d.status = 'delivered'
			WHERE e.merchant_id = $1 AND e.type = 'dispute.closed'`, m.ID) == 1
	})
}
