package activities

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Deliveries are the activities of webhook deliveries.
type Deliveries struct {
	Store *storage.Store
	// TestSchedule replaces webhook.RetrySchedule in test mode, for
	// demonstrations; nil leaves it. Live deliveries always keep the fixed one.
	TestSchedule webhook.Schedule

	receivers receivers
}

// NewDeliveries returns activities whose every dial passes guard.
func NewDeliveries(store *storage.Store, guard *AddressGuard, testSchedule webhook.Schedule) *Deliveries {
	return &Deliveries{Store: store, TestSchedule: testSchedule, receivers: newReceivers(guard)}
}

// ErrTypeReceiverRefused: the attempt failed; the server retries it after the
// delay that comes with the error.
const ErrTypeReceiverRefused = "ReceiverRefused"

// DeliveryInput names a delivery and who owns it.
type DeliveryInput struct {
	MerchantID string        `json:"merchant_id"`
	Mode       checkout.Mode `json:"mode"`
	DeliveryID string        `json:"delivery_id"`
}

func (in DeliveryInput) ref() storage.DeliveryRef {
	return storage.DeliveryRef{ID: in.DeliveryID, MerchantID: in.MerchantID, Mode: in.Mode}
}

// AttemptResult is an attempt without what the receiver wrote.
type AttemptResult struct {
	Run        int           `json:"run"`
	Number     int           `json:"number"`
	StatusCode int           `json:"status_code,omitempty"`
	Duration   time.Duration `json:"duration"`
}

// SendAttemptResult says how a delivery ended that did not fail.
type SendAttemptResult struct {
	Status   webhook.DeliveryStatus `json:"status"`
	Recorded bool                   `json:"recorded"` // false: RecordAttempt must note it
	Attempt  AttemptResult          `json:"attempt"`
}

// SendAttempt makes one attempt: notes it, posts, notes how it ended. It fails
// with ReceiverRefused and the delay to the next attempt, and with
// DeliveryNotFound. Source: interface document, "Delivery and retries".
func (d *Deliveries) SendAttempt(ctx context.Context, in DeliveryInput) (SendAttemptResult, error) {
	info := activity.GetInfo(ctx)
	number := int(info.Attempt)
	out, err := d.Store.BeginAttempt(ctx, in.ref(), info.WorkflowExecution.RunID, number)
	if err != nil {
		if errors.Is(err, checkout.ErrNotFound) {
			return SendAttemptResult{}, asFinal(ctx, err, ErrTypeDeliveryNotFound)
		}
		logger(ctx).WarnContext(ctx, "attempt not begun", "error", err)
		return SendAttemptResult{}, d.refused(ctx, in.Mode, "attempt not begun: "+publicReason(err))
	}
	if out.Status == webhook.DeliveryCanceled {
		return SendAttemptResult{Status: webhook.DeliveryCanceled, Recorded: true}, nil
	}
	a := d.send(ctx, in, out, number)
	delay := time.Duration(0)
	if !a.Succeeded() {
		delay, _ = d.schedule(in.Mode).RetryDelay(number)
	}
	recordErr := d.Store.FinishAttempt(ctx, in.ref(), a, delay)
	log := logger(ctx).With("delivery_id", in.DeliveryID, "event_type", out.EventType, "run", a.Run, "number", number,
		"status_code", a.StatusCode, "error_kind", a.ErrorKind, "duration_ms", a.Duration.Milliseconds())
	if recordErr != nil {
		log = log.With("record_error", recordErr)
	}
	log.InfoContext(ctx, "webhook attempt")
	if !a.Succeeded() {
		return SendAttemptResult{}, d.refused(ctx, in.Mode, failureText(a))
	}
	// A 2xx is never turned into an error because PostgreSQL is away: the
	// receiver would get the event again for an outage of ours.
	return SendAttemptResult{
		Status: webhook.DeliveryDelivered, Recorded: recordErr == nil,
		Attempt: AttemptResult{Run: a.Run, Number: number, StatusCode: a.StatusCode, Duration: a.Duration},
	}, nil
}

// send makes the POST. Every attempt carries the same bytes and a fresh
// timestamp. There is no Idempotency-Key header: with one, Go's transport would
// silently send a POST again.
func (d *Deliveries) send(ctx context.Context, in DeliveryInput, out storage.Outgoing, number int) webhook.Attempt {
	started := time.Now()
	headers := http.Header{
		"Content-Type":          {"application/json"},
		"User-Agent":            {userAgent},
		webhook.SignatureHeader: {webhook.Sign(out.Digest, started, out.Body)},
		"X-Service-Event-Id":    {out.EventID},
		"X-Service-Event-Type":  {string(out.EventType)},
		"X-Service-Delivery-Id": {in.DeliveryID},
		"X-Service-Attempt":     {strconv.Itoa(number)},
	}
	status, kind, response := d.receivers.post(ctx, in.Mode, out.URL, headers, out.Body)
	return webhook.Attempt{
		DeliveryID: in.DeliveryID, Run: out.Run, Number: number, StartedAt: started, Duration: time.Since(started),
		StatusCode: status, ErrorKind: kind, ResponseBody: response,
	}
}

// failureText tells operators what happened, without address or answer.
func failureText(a webhook.Attempt) string {
	if a.StatusCode != 0 {
		return fmt.Sprintf("%s: status %d", a.ErrorKind, a.StatusCode)
	}
	return string(a.ErrorKind)
}

func (d *Deliveries) schedule(mode checkout.Mode) webhook.Schedule {
	if d.TestSchedule != nil && !mode.Live() {
		return d.TestSchedule
	}
	return webhook.RetrySchedule
}

// refused reports a failed attempt. Do not wrap it: with fmt.Errorf("…%w")
// around it the server sees neither type, delay nor category.
func (d *Deliveries) refused(ctx context.Context, mode checkout.Mode, text string) error {
	delay, _ := d.schedule(mode).RetryDelay(int(activity.GetInfo(ctx).Attempt))
	return temporal.NewApplicationErrorWithOptions(text, ErrTypeReceiverRefused, temporal.ApplicationErrorOptions{
		NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// RecordAttemptInput is a success that SendAttempt could not note.
type RecordAttemptInput struct {
	DeliveryInput
	Attempt AttemptResult `json:"attempt"`
}

// RecordAttempt notes a success that SendAttempt could not note.
func (d *Deliveries) RecordAttempt(ctx context.Context, in RecordAttemptInput) error {
	return asFinal(ctx, d.Store.FinishAttempt(ctx, in.ref(), webhook.Attempt{
		Run: in.Attempt.Run, Number: in.Attempt.Number, StatusCode: in.Attempt.StatusCode, Duration: in.Attempt.Duration,
	}, 0), ErrTypeDeliveryNotFound)
}

// FailDelivery marks the delivery permanently failed.
func (d *Deliveries) FailDelivery(ctx context.Context, in DeliveryInput) error {
	return d.end(ctx, in, webhook.DeliveryFailed)
}

// CancelDelivery marks the delivery canceled, by an operator.
func (d *Deliveries) CancelDelivery(ctx context.Context, in DeliveryInput) error {
	return d.end(ctx, in, webhook.DeliveryCanceled)
}

func (d *Deliveries) end(ctx context.Context, in DeliveryInput, status webhook.DeliveryStatus) error {
	return asFinal(ctx, d.Store.EndDelivery(ctx, in.ref(), activity.GetInfo(ctx).WorkflowExecution.RunID, status), ErrTypeDeliveryNotFound)
}
