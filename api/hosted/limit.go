package hosted

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/gorilla/mux"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Limits are how often one address may ask. Source: api/decisions.md, "The hosted
// page".
type Limits struct {
	Requests storage.Rate // anything that reads PostgreSQL
	Forms    storage.Rate // forms whose card was refused, besides: nobody tests stolen cards here
}

// DefaultLimits are those of api/decisions.md: many customers may share an address.
var DefaultLimits = Limits{
	Requests: storage.Rate{PerSecond: 20, Burst: 200},
	Forms:    storage.Rate{PerSecond: 0.2, Burst: 20},
}

// sessionRate is how often the status of one session may be asked for, by all
// its tabs.
var sessionRate = storage.Rate{PerSecond: 2, Burst: 20}

// Kinds of buckets, in the order in which storage.Store.Allow takes them.
const (
	bucketRequests = "page"
	bucketForms    = "page_form"
	bucketSession  = "page_status"
)

// refusal is how a route answers what it does not let through.
type refusal struct {
	tooMany func(w http.ResponseWriter, r *http.Request, seconds int) // to wait
	away    func(w http.ResponseWriter, r *http.Request, err error)   // nobody could say
}

// Bound lets through to next what does not come too often, by the same limits as
// the pages.
func Bound(cfg Config, next http.Handler) http.Handler {
	s := newServer(cfg)
	return s.secured(s.inLanguage(s.limited(next, s.withPage())))
}

// limited lets through what does not come too often, and of one address not too
// much at once. A form has no turn while it waits for a card network: forms are
// few.
func (s *server) limited(next http.Handler, refuse refusal, more ...func(*http.Request) storage.Bucket) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := limit.Address(r)
		turn, err := s.Shares.Enter(r.Context(), address)
		if err != nil {
			tooOften(w, r, refuse, 1)
			return
		}
		defer turn.Leave(false)
		buckets := []storage.Bucket{{Owner: address, Kind: bucketRequests, Rate: s.Limits.Requests}}
		for _, bucket := range more {
			buckets = append(buckets, bucket(r))
		}
		got, err := s.Store.Allow(r.Context(), buckets...)
		switch {
		case err != nil:
			refuse.away(w, r, err)
		case !got.OK:
			turn.Leave(true)
			tooOften(w, r, refuse, max(1, int(math.Ceil(got.Wait.Seconds()))))
		default:
			if r.Method == http.MethodPost {
				turn.Leave(false)
			}
			next.ServeHTTP(w, r)
		}
	})
}

func tooOften(w http.ResponseWriter, r *http.Request, refuse refusal, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	refuse.tooMany(w, r, seconds)
}

// withPage refuses with a page, withJSON with what checkout.js reads.
func (s *server) withPage() refusal {
	return refusal{s.tooMany, func(w http.ResponseWriter, r *http.Request, err error) { s.unavailable(w, r, mux.Vars(r)["id"], err) }}
}

func (s *server) withJSON() refusal { return refusal{statusTooMany, s.statusAway} }

// ofForms is the bucket of an address's forms.
func (s *server) ofForms(r *http.Request) storage.Bucket {
	return storage.Bucket{Owner: limit.Address(r), Kind: bucketForms, Rate: s.Limits.Forms}
}

// uncounted returns the token of a form with which no card was refused. Who tries
// out stolen cards is refused most of the time; the many customers who share an
// address, of an office or of a network of phones, are not.
func (s *server) uncounted(r *http.Request) {
	if err := s.Store.GiveBack(context.WithoutCancel(r.Context()), s.ofForms(r)); err != nil {
		s.Log.WarnContext(r.Context(), "form counted", "error", err) // one more has to wait, nothing else
	}
}

// ofSession is the bucket of a session's status. What has not the shape of an
// id, which is never looked up, counts for its address.
func ofSession(r *http.Request) storage.Bucket {
	owner := mux.Vars(r)["id"]
	if !checkout.IsID(checkout.PrefixSession, owner) {
		owner = limit.Address(r)
	}
	return storage.Bucket{Owner: owner, Kind: bucketSession, Rate: sessionRate}
}

// tooMany is the page for those who have to wait.
func (s *server) tooMany(w http.ResponseWriter, r *http.Request, seconds int) {
	t := textsOf(r)
	v := view{State: stateProblem, Title: t.TooManyTitle, Heading: t.TooManyTitle, Explanation: fmt.Sprintf(t.TooManyText, seconds)}
	if id := mux.Vars(r)["id"]; checkout.IsID(checkout.PrefixSession, id) {
		v.Next = s.path(id)
	}
	s.render(w, r, http.StatusTooManyRequests, v)
}

// statusTooMany is the same for checkout.js.
func statusTooMany(w http.ResponseWriter, _ *http.Request, _ int) {
	writeJSON(w, http.StatusTooManyRequests, map[string]string{"error": "rate_limited"})
}
