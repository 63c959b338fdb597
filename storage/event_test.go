package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/webhook"
)

func TestPublish_OptInEventsGoToWhoListsThemAndToNoSessionsOwnAddress(t *testing.T) {
	f := newFixture(t)
	const five, listed, all, own = "https://shop.example/five", "https://shop.example/listed", "https://shop.example/all",
		"https://shop.example/own"
	f.endpoint(t, five, webhook.EventTypes[:5]...)
	f.endpoint(t, listed, webhook.RefundSucceeded, webhook.RefundFailed, webhook.DisputeOpened, webhook.DisputeClosed,
		webhook.PayoutReduced)
	f.endpoint(t, all, webhook.AllEvents)
	session := f.create(t, f.newSession())
	withAddress, _ := f.withAddress(t, own)

	for _, typ := range webhook.EventTypes {
		want, wantOfAddress := []any{all, five}, []any{own}
		if typ.OptIn() {
			want, wantOfAddress = []any{all, listed}, []any{all, listed}
		}
		must.Get(f.Publish(t.Context(), session, typ))(t)
		must.Get(f.Publish(t.Context(), withAddress, typ))(t)
		to := func(sessionID string) any {
			return f.query(t, `SELECT array_agg(d.url ORDER BY d.url) FROM webhook_delivery d JOIN event e ON e.id = d.event_id
				WHERE e.type = $1 AND e.session_id = $2`, typ, sessionID)
		}
		require.Equal(t, want, to(session.ID), typ)
		require.Equal(t, wantOfAddress, to(withAddress.ID), "%s of a session with an address", typ)
	}
	require.EqualValues(t, 5, f.query(t, `SELECT count(*) FROM webhook_delivery WHERE session_url`))
}
