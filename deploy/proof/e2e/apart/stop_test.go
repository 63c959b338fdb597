package apart

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
)

// TestStop_CutsNoRequest stops the API while 50 requests are under way, with
// either protocol: all are answered, and then the process ends by itself.
func TestStop_CutsNoRequest(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{})
	clear := new(http.Protocols)
	clear.SetUnencryptedHTTP2(true)
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2.0": {Protocols: clear}} {
		t.Run(name, func(t *testing.T) {
			defer transport.CloseIdleConnections()
			merchants := []*e2e.Merchant{e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)} // one may have 50 registrations
			release := lockTable(t, stack, "webhook_endpoint")
			answers := make(chan string, 50)
			var group sync.WaitGroup
			for i := range cap(answers) {
				group.Go(func() {
					m := merchants[i%2]
					answers <- register(m, transport, fmt.Sprintf("%s/%d", m.URL, i))
				})
			}
			e2e.Await(t, "the requests wait for the table", 5*time.Second, func() bool {
				return e2e.Query[int](t, stack, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 10
			})
			stopped := make(chan error, 1)
			go func() { stopped <- stack.API.Stop(20 * time.Second) }()
			time.Sleep(300 * time.Millisecond) // the stop has begun
			require.Empty(t, answers, "they are all still under way")
			release()
			group.Wait()
			close(answers)
			for got := range answers {
				require.Equal(t, "201 "+name, got)
			}
			require.NoError(t, <-stopped)
			require.NoError(t, stack.StartAPI(t.Context()))
		})
	}
}

// register registers a webhook and returns the answer's status and protocol, or what went wrong.
func register(m *e2e.Merchant, transport *http.Transport, url string) string {
	request, err := http.NewRequest(http.MethodPost, m.Stack.APIURL()+"/v1/webhooks", bytes.NewBufferString(`{"url":"`+url+`","events":["*"]}`))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+m.Key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusCreated {
		return fmt.Sprint(answer.Status, string(text), err)
	}
	return fmt.Sprint(answer.StatusCode, " ", answer.Proto)
}

// lockTable makes everybody wait who wants the table, until release.
func lockTable(t *testing.T, stack *devstack.Stack, table string) (release func()) {
	conn := must.Get(pgx.Connect(t.Context(), stack.DatabaseURL()))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	tx := must.Get(conn.Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`))(t)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// TestStop_CutsNoAttempt stops the worker while 12 attempts are under way: each is finished and recorded
// within the longest stop that deploy/release/README.md names, and no receiver gets one twice.
func TestStop_CutsNoAttempt(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{})
	merchants := []*e2e.Merchant{e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)}
	sessions := map[string]*e2e.Merchant{}
	for _, m := range merchants {
		for range 4 { // a new endpoint gets 4 attempts at a time
			sessions[m.Create(e2e.Terms)] = m
		}
	}
	var releases []func()
	for _, m := range merchants {
		releases = append(releases, m.Receiver.Hang())
	}
	var group sync.WaitGroup
	for id, m := range sessions {
		group.Go(func() { _, _, _ = m.Pay(id, e2e.CardDeclined) }) // the arrivals show it
	}
	group.Wait()
	for _, m := range merchants {
		m.Arrivals(4, 5*time.Second)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stack.Worker.Stop(longestStop) }()
	time.Sleep(300 * time.Millisecond) // the stop has begun
	for _, release := range releases {
		release()
	}
	require.NoError(t, <-stopped)
	for id, m := range sessions {
		delivery := e2e.DeliveryOf(t, stack, id, "checkout.failed")
		require.EqualValues(t, "delivered", m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "").Field("status"), id)
	}
	require.NoError(t, stack.StartWorker(t.Context()))
	for _, m := range merchants {
		require.Len(t, m.Arrivals(4, time.Second), 4)
	}
}

// longestStop is the worker's, as deploy/release/README.md names it.
const longestStop = 23 * time.Second
