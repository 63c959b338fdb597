package hosted

import (
	"context"
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// DefaultLimits are how often one address may ask. Many customers may share one.
// Forms are those whose card was refused: nobody tests stolen cards here. Source:
// api/decisions.md, "The hosted page".
var DefaultLimits = limit.Rates{
	Requests: storage.Rate{PerSecond: 20, Burst: 200},
	Forms:    storage.Rate{PerSecond: 0.2, Burst: 20},
}

// sessionRate is how often the status of one session may be asked for, by all
// its tabs.
var sessionRate = storage.Rate{PerSecond: 2, Burst: 20}

// Kinds of buckets. That of a session comes after that of its address, as
// storage.Store.Allow demands.
const (
	bucketsOfAddress = "page"
	bucketSession    = "page_status"
)

// Bound lets through to next what does not come too often, by the same limits as
// the pages, and answers a panic of next as they do.
func Bound(cfg Config, next http.Handler) http.Handler {
	s := newServer(cfg)
	return s.framed(web.Serve(s.entrance.Limited(func(w http.ResponseWriter, r *http.Request) error {
		next.ServeHTTP(w, r)
		return nil
	}), s.fail))
}

// uncounted returns the token of a form with which no card was refused. Who tries
// out stolen cards is refused most of the time; the many customers who share an
// address, of an office or of a network of phones, are not.
func (s *server) uncounted(r *http.Request) {
	if err := s.entrance.GiveBackForm(context.WithoutCancel(r.Context()), r); err != nil {
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
