package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/webhook"
)

func TestCreateReplay_StartsAWorkflow(t *testing.T) {
	f := newDeliveryFront(t)
	f.end(webhook.DeliveryFailed)
	var started []client.StartWorkflowOptions
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		started = append(started, o)
		return nil
	}
	got := f.answers(202, "POST", "/v1/webhooks/"+f.endpoint+"/replay", f.key, `{"since":"2026-01-01T02:00:00+02:00"}`)
	id := got.json["id"].(string)
	require.Equal(t, "/v1/replays/"+id, got.header.Get("Location"))
	require.Len(t, started, 1)
	require.Equal(t, id, started[0].ID)
	read := f.answers(200, "GET", "/v1/replays/"+id, f.key, "")
	require.Equal(t, got.json, read.json)
	for _, name := range []string{"created_at", "until"} {
		at := timeIn(t, got.json[name])
		require.InDelta(t, 0, time.Since(at).Seconds(), 60)
		delete(got.json, name)
	}
	require.Equal(t, map[string]any{
		"id": id, "webhook_id": f.endpoint, "since": "2026-01-01T00:00:00.000Z", "delivery_status": "failed", "rate": 10.0, "status": "running",
		"total": 1.0, "started": 0.0, "skipped": 0.0, "livemode": false, "finished_at": nil, "workflow_id": id,
	}, got.json)

	f.endReplays()
	f.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("Temporal is away") }
	got = f.do("POST", "/v1/webhooks/"+f.endpoint+"/replay", f.key,
		`{"since":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z","status":"delivered","rate":100,"preview":false}`)
	require.Equal(t, 202, got.status, "Reconcile starts it")
	require.Equal(t, "delivered", got.json["delivery_status"])
	require.Equal(t, "2026-02-01T00:00:00.000Z", got.json["until"])
	require.EqualValues(t, 100, got.json["rate"])
	require.EqualValues(t, 0, got.json["total"])
	require.Contains(t, f.log.String(), "left to Reconcile")
}

func TestCreateReplay_PreviewOnlyCounts(t *testing.T) {
	f := newDeliveryFront(t)
	f.end(webhook.DeliveryFailed)
	f.temporal.Start = func(client.StartWorkflowOptions) error { panic("nothing is to be started") }
	for body, total := range map[string]float64{
		`{"since":"2026-01-01T00:00:00Z","preview":true}`:                                      1,
		`{"since":"2026-01-01T00:00:00Z","preview":true,"status":"canceled"}`:                  0,
		`{"since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z","preview":true}`:       0,
		`{"since":"2026-01-01T00:00:00Z","until":"2999-01-02T00:00:00Z","preview":true}`:       1,
		`{"since":"2026-01-01T00:00:00Z","until":null,"status":null,"preview":true}`:           1,
		`{"since":"2026-01-01T00:00:00.123456789Z","rate":1,"status":"failed","preview":true}`: 1,
	} {
		got := f.answers(200, "POST", "/v1/webhooks/"+f.endpoint+"/replay", f.key, body)
		require.Equal(t, total, got.json["total"], body)
		require.Equal(t, true, got.json["preview"])
		require.Equal(t, f.endpoint, got.json["webhook_id"])
		require.Len(t, got.json, 7)
		require.Empty(t, got.header.Get("Location"))
	}
	require.Zero(t, f.count("webhook_replay"))
}

func TestCreateReplay_WhatRunsAlreadyIsAConflict(t *testing.T) {
	f := newDeliveryFront(t)
	replay := func(endpoint, rate, key string) answer {
		return f.do("POST", "/v1/webhooks/"+endpoint+"/replay", key, `{"since":"2026-01-01T00:00:00Z","rate":`+rate+`}`)
	}
	require.Equal(t, 202, replay(f.endpoint, "90", f.key).status)
	require.Equal(t, "409 replay_running", replay(f.endpoint, "1", f.key).refused())
	other, _ := f.newEndpoint(f.key)
	require.Equal(t, "409 replay_rate_exceeded", replay(other, "11", f.key).refused())
	require.Equal(t, 202, replay(other, "10", f.key).status, "100 a second together")
	live, _ := f.newEndpoint(f.merchant.liveKey)
	require.Equal(t, 409, replay(live, "1", f.merchant.liveKey).status, "both modes together")
	m := f.newMerchant(true)
	theirs, _ := f.newEndpoint(m.testKey)
	require.Equal(t, 202, replay(theirs, "100", m.testKey).status, "another merchant is not hurt")
	f.endReplays()
	require.Equal(t, 202, replay(f.endpoint, "100", f.key).status)
}

func TestCancelReplay_AnswersWithWhatTheWorkflowWrote(t *testing.T) {
	f := newDeliveryFront(t)
	id := f.newReplay(f.key, f.endpoint)
	f.temporal.Cancel = func(canceled string) error {
		require.Equal(t, id, canceled)
		go func() { // as the workflow does, a moment later
			time.Sleep(100 * time.Millisecond)
			r, err := f.store.Webhooks.Replay(context.Background(), f.ref.Owner.Ref(id))
			if err == nil {
				r.Status, r.Started = webhook.ReplayCanceled, 3
				_ = f.store.Webhooks.RecordReplay(context.Background(), r) // seen in the answer
			}
		}()
		return nil
	}
	got := f.answers(200, "POST", "/v1/replays/"+id+"/cancel", f.key, "")
	require.Equal(t, "canceled", got.json["status"])
	require.EqualValues(t, 3, got.json["started"])
	require.NotNil(t, got.json["finished_at"])
	require.Equal(t, "0 of 0 done", f.value(`SELECT detail FROM audit_entry WHERE action = 'replay.cancel_requested'`))
	f.temporal.Cancel = func(string) error { panic("it has ended") }
	again := f.answers(200, "POST", "/v1/replays/"+id+"/cancel", f.key, "")
	require.Equal(t, got.body, again.body)
}

func TestCancelReplay_WhenTheWorkflowDoesNot(t *testing.T) {
	f := newDeliveryFront(t)
	for name, tc := range map[string]struct {
		err    error
		status int
		row    string
	}{
		"it takes longer":       {nil, 200, "running"},
		"it was never started":  {serviceerror.NewNotFound("x"), 200, "canceled"},
		"Temporal is away":      {serviceerror.NewUnavailable("10.1.1.1 is down"), 503, "running"},
		"nobody knows what was": {context.DeadlineExceeded, 503, "running"},
	} {
		id := f.newReplay(f.key, f.endpoint)
		f.temporal.Cancel = func(string) error { return tc.err }
		got := f.do("POST", "/v1/replays/"+id+"/cancel", f.key, "")
		require.Equal(t, tc.status, got.status, name)
		require.Equal(t, tc.row, f.do("GET", "/v1/replays/"+id, f.key, "").json["status"], name)
		require.NotContains(t, got.body, "10.1.1.1")
	}
}
