package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"example.com/checkout/workflows/runs"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
)

// rig is a stack to measure, with direct access that merchants do not have.
type rig struct {
	dir      string
	stack    *devstack.Stack
	store    *storage.Store
	temporal client.Client // with the SDK's defaults
	plain    client.Client // with the service's options, without compression
	runs     *runs.Client

	orders atomic.Int64 // sessions created over REST
}

// newRig starts a stack in a temporary directory. close removes the directory.
func newRig(ctx context.Context, o devstack.Options) (r *rig, err error) {
	r = &rig{}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "checkout-bench-"); err != nil {
		return r, err
	}
	o.Dir, o.NoUI, o.Out = r.dir, true, os.Stderr
	o.Env = []string{
		"CHECKOUT_LOG_LEVEL=warn",
		"CHECKOUT_TEST_RATE_LIMIT=100000",
		"CHECKOUT_PAGE_RATE_LIMIT=10000",
		"CHECKOUT_FORM_RATE_LIMIT=10000",
		"CHECKOUT_DASHBOARD_RATE_LIMIT=10000",
	}
	if r.stack, err = devstack.Start(ctx, o); err != nil {
		return r, err
	}
	if r.store, err = r.stack.OpenStore(ctx, 16); err != nil {
		return r, err
	}
	if r.temporal, err = r.dial(ctx, nil); err != nil {
		return r, err
	}
	if r.plain, err = r.dial(ctx, &client.GrpcCompressionNone{}); err != nil {
		return r, err
	}
	r.runs = &runs.Client{Temporal: r.plain}
	return r, nil
}

// dial returns a client of the stack's Temporal; nil means the SDK's compression.
func (r *rig) dial(ctx context.Context, compression client.GrpcCompression) (client.Client, error) {
	options, err := r.stack.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	options.ConnectionOptions.GrpcCompression = compression
	return client.DialContext(ctx, options)
}

func (r *rig) stop() {
	for _, c := range []client.Client{r.temporal, r.plain} {
		if c != nil {
			c.Close()
		}
	}
	if r.store != nil {
		r.store.Close()
	}
	if r.stack != nil {
		r.stack.Stop()
	}
	_ = os.RemoveAll(r.dir) // the system cleans up what is left
}

// quantiles sorts took and returns its quantiles, 0..1; 0 when there are none.
func quantiles(took []time.Duration) func(q float64) time.Duration {
	slices.Sort(took)
	return func(q float64) time.Duration {
		if len(took) == 0 {
			return 0
		}
		return took[int(q*float64(len(took)-1))]
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// send returns a request; header alternates names and values.
func send(ctx context.Context, method, url string, body []byte, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: the addresses are the stack's own
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return r
}
