package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// RequestLog collects the requests with a valid key and writes them in batches, so that no request waits for its
// log. It does its best: when PostgreSQL does not take a batch, or too many requests come, it drops them and
// counts what it dropped.
type RequestLog struct {
	requests *storage.Requests
	log      *slog.Logger
	full     chan struct{} // a batch is complete

	mu   sync.Mutex
	rows []merchant.APIRequest
}

// Sizes and times of a RequestLog. A waiting request takes about 300 bytes.
const (
	requestBatch    = 1000
	requestBuffer   = 10 * requestBatch
	requestInterval = time.Second
	requestTimeLeft = 5 * time.Second // for one batch
)

// An error here means a bad instrument name: a bug.
var requestsUnlogged, _ = otel.Meter("example.com/checkout/api").Int64Counter("checkout.request.unlogged",
	metric.WithUnit("{request}"), metric.WithDescription("Requests that are missing in the log that merchants see."))

// NewRequestLog returns a log that writes to store. Run writes the requests. log gets a line per dropped batch.
func NewRequestLog(requests *storage.Requests, log *slog.Logger) *RequestLog {
	return &RequestLog{requests: requests, log: log, full: make(chan struct{}, 1)}
}

// add notes a request. It never waits.
func (l *RequestLog) add(ctx context.Context, r merchant.APIRequest) {
	l.mu.Lock()
	n := len(l.rows)
	if n < requestBuffer {
		l.rows = append(l.rows, r)
	}
	l.mu.Unlock()
	if n >= requestBuffer {
		requestsUnlogged.Add(ctx, 1)
	}
	if n+1 >= requestBatch {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// Run writes every second, and sooner when a batch is complete, until ctx ends. Call Flush once no more requests
// come.
func (l *RequestLog) Run(ctx context.Context) {
	tick := time.NewTicker(requestInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.full:
		}
		l.Flush(ctx)
	}
}

// Flush writes what waits. It drops a batch that PostgreSQL does not take. A batch that has begun is finished when
// ctx ends.
func (l *RequestLog) Flush(ctx context.Context) {
	l.mu.Lock()
	rows := l.rows
	l.rows = nil
	l.mu.Unlock()
	for len(rows) > 0 {
		batch := rows[:min(requestBatch, len(rows))]
		rows = rows[len(batch):]
		l.write(context.WithoutCancel(ctx), batch)
	}
}

func (l *RequestLog) write(ctx context.Context, batch []merchant.APIRequest) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeLeft)
	defer cancel()
	if err := l.requests.LogRequests(ctx, batch); err != nil {
		requestsUnlogged.Add(ctx, int64(len(batch)))
		l.log.WarnContext(ctx, "requests not logged", "requests", len(batch), "error", err)
	}
}

// logged returns the row of a request. Only a valid key has one.
func (ex *exchange) logged(method, route string, status int, code string, began time.Time) merchant.APIRequest {
	return merchant.APIRequest{
		Ref:       ex.caller.Key.Owner.Ref(checkout.NewID(checkout.PrefixRequest)),
		RequestID: ex.requestID, KeyID: ex.caller.Key.ID, Method: method, Route: route, Status: status, Error: code,
		SessionID: ex.sessionID, Duration: time.Since(began), CreatedAt: began.UTC().Truncate(time.Millisecond),
	}
}
