package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Load creates, reads and pays sessions all the time, whatever fails. Each request is tried once.
type Load struct {
	merchant *Merchant
	cancel   context.CancelFunc
	group    sync.WaitGroup

	mu           sync.Mutex
	acknowledged []string    // ids of sessions
	at           []time.Time // when they were
	faults       []string
}

// StartLoad starts the load of three customers of the merchant.
func StartLoad(m *Merchant) *Load {
	ctx, cancel := context.WithCancel(m.T.Context())
	l := &Load{merchant: m, cancel: cancel}
	for range 3 {
		l.group.Go(func() {
			for ctx.Err() == nil {
				if err := l.session(); err != nil {
					l.mu.Lock()
					l.faults = append(l.faults, time.Now().UTC().Format(time.TimeOnly)+" "+err.Error())
					l.mu.Unlock()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	return l
}

func (l *Load) session() error {
	created, err := l.call(http.StatusCreated, http.MethodPost, "/v1/checkout", Terms)
	if err != nil {
		return err
	}
	id := created.Field("id").(string)
	l.mu.Lock()
	l.acknowledged, l.at = append(l.acknowledged, id), append(l.at, time.Now())
	l.mu.Unlock()
	if _, err := l.call(http.StatusOK, http.MethodGet, "/v1/checkout/"+id, ""); err != nil {
		return err
	}
	status, page, err := l.merchant.Pay(id, CardSucceeds)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("pay: %d %s", status, page)
	}
	return err
}

func (l *Load) call(status int, method, path, body string) (Answer, error) {
	got, err := l.merchant.Call(method, path, body)
	if err == nil && got.Status != status {
		err = fmt.Errorf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	return got, err
}

// Since counts the sessions that were acknowledged after a time.
func (l *Load) Since(after time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, _ := slices.BinarySearchFunc(l.at, after, time.Time.Compare)
	return len(l.at) - first
}

// Gap is the longest time without an acknowledged session.
func (l *Load) Gap() (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.at[1:] {
		longest = max(longest, l.at[i+1].Sub(l.at[i]))
	}
	return longest
}

// Stop ends the load. It returns the sessions that were acknowledged, oldest first, and what failed.
func (l *Load) Stop() (acknowledged, faults []string) {
	l.cancel()
	l.group.Wait()
	return l.acknowledged, l.faults
}
