package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

func TestMerchantUpdate_TellsEachRegistrationThatWantsIt(t *testing.T) {
	w := newWorld(t)
	w.endpoint(webhook.MerchantUpdated)
	w.endpoint(webhook.CheckoutCompleted)
	w.endpoint(webhook.EventTypes...)
	name := "New name"
	changed, err := w.Merchants.ChangeMerchant(t.Context(), storage.MerchantChange{
		MerchantID: w.merchant.ID, Mode: checkout.ModeTest, Name: &name,
		By: merchant.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: w.merchant.ID, Actor: "ann", Action: "merchant.changed", Subject: w.merchant.ID},
	})
	require.NoError(t, err)
	events := changed.Events
	require.Len(t, events, 2, "of both modes")
	require.Equal(t, checkout.ModeTest, events[0].Mode)
	for range 2 { // a second run finds the deliveries that the first started
		env := w.env(events[0].EventID, time.Now())
		env.ExecuteWorkflow(contract.TypeMerchantUpdate, w.owner().Ref(events[0].EventID))
		require.True(t, env.IsWorkflowCompleted())
		require.NoError(t, env.GetWorkflowError())
	}
	require.Equal(t, 2, w.count(`SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`))
}
