package dashboard

import (
	"context"
	"net/http"

	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
)

// Limits are how often one address may ask. Source: api/decisions.md, "The
// dashboard".
type Limits struct {
	Requests storage.Rate // anything that reads PostgreSQL
	Forms    storage.Rate // forms, besides
}

// DefaultLimits are those of api/decisions.md: an office shares an address.
var DefaultLimits = Limits{
	Requests: storage.Rate{PerSecond: 20, Burst: 200},
	Forms:    storage.Rate{PerSecond: 1, Burst: 60},
}

// Kinds of buckets, in the order in which storage.Store.Allow takes them.
const (
	bucketRequests = "dashboard"
	bucketForms    = "dashboard_form"
)

// limited lets through what does not come too often, and of one address not too
// much at once. A cookie counts for nothing here: anybody can invent one.
func (s *server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turn, ok := s.admit(w, r); ok {
			defer turn.Leave(false)
			next.ServeHTTP(w, r)
		}
	})
}

// entrance lets a few requests count themselves at once. A crowd that comes from
// many addresses does not take all connections to PostgreSQL by that, which other
// merchants' requests need.
var entrance = semaphore.NewWeighted(2)

// admit waits for the address's turn and takes its tokens; otherwise it has
// answered.
func (s *server) admit(w http.ResponseWriter, r *http.Request) (*limit.Turn, bool) {
	address := limit.Address(r)
	turn, err := s.Shares.Enter(r.Context(), address)
	if err != nil {
		s.tooMany(w, r)
		return nil, false
	}
	buckets := []storage.Bucket{{Owner: address, Kind: bucketRequests, Rate: s.Limits.Requests}}
	if r.Method == http.MethodPost {
		buckets = append(buckets, storage.Bucket{Owner: address, Kind: bucketForms, Rate: s.Limits.Forms})
	}
	admitted := false
	defer func() { // after a panic, too
		if !admitted {
			turn.Leave(err == nil)
		}
	}()
	got, err := s.count(r.Context(), buckets)
	if admitted = err == nil && got.OK; admitted {
		return turn, true
	}
	if err != nil {
		s.fail(w, r, err)
	} else {
		s.tooMany(w, r)
	}
	return nil, false
}

// count takes a token from each of the buckets when there is room at the entrance.
func (s *server) count(ctx context.Context, buckets []storage.Bucket) (storage.Allowance, error) {
	if err := entrance.Acquire(ctx, 1); err != nil {
		return storage.Allowance{}, err
	}
	defer entrance.Release(1)
	return s.Store.Allow(ctx, buckets...)
}

// busy is told when too many do something heavy at once.
var busy = problem{http.StatusServiceUnavailable, "Too busy now", "Nothing was done. Try again in a moment."}

// tooMany is the page for those who have to wait. It looks nothing up.
func (s *server) tooMany(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "60")
	s.refused(problems[http.StatusTooManyRequests]).ServeHTTP(w, r)
}

// refused serves a problem without asking who is there.
func (s *server) refused(p problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.renderOpen(w, r, p.Status, "problem", p.Title, p)
	})
}
