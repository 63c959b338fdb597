package hosted

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// sessionRate bounds the requests for the status of one session, from all its tabs together.
var sessionRate = storage.Rate{PerSecond: 2, Burst: 20}

// pictureRate bounds an address's requests for pictures of line items. Browsers keep them.
var pictureRate = storage.Rate{PerSecond: 50, Burst: 1000}

// Kinds of buckets. A session's bucket sorts after its address's bucket:
// storage.Requests.Allow demands this order.
const (
	bucketsOfAddress  = "page"
	bucketsOfPictures = "page_picture"
	bucketSession     = "page_status"
)

// Bound limits the requests to next by the limits of the pages. It answers a panic of next with a
// page.
func Bound(cfg Config, next http.Handler) http.Handler {
	s := newServer(cfg)
	return s.withPageHeaders(web.Serve(s.entrance.Limited(func(w http.ResponseWriter, r *http.Request) error {
		next.ServeHTTP(w, r)
		return nil
	}), s.fail))
}

// giveBackForm gives back the token of a form that ended without a refused card. A person who tests
// stolen cards is refused most of the time. The many customers who share an address, in an office
// or a phone network, are not.
func (s *server) giveBackForm(r *http.Request) {
	if err := s.entrance.GiveBackForm(context.WithoutCancel(r.Context()), r); err != nil {
		s.Log.WarnContext(r.Context(), "form token not given back", "error", err) // a later form waits longer
	}
}

// countDecline counts a declined card at a live merchant. Test cards are there to be declined.
func (s *server) countDecline(r *http.Request, session checkout.Session) {
	t := session.Transaction()
	if t == nil || !t.Failure.Declined() || !session.Mode.Live() {
		return
	}
	err := s.Requests.CountDecline(context.WithoutCancel(r.Context()), session.MerchantID, limit.Address(r), s.Declines)
	if err != nil {
		s.Log.WarnContext(r.Context(), "declined card not counted", "error", err) // a later payment does not wait
	}
}

// answerSlowed answers a payment that must wait because cards were declined.
func (s *server) answerSlowed(w http.ResponseWriter, r *http.Request, v view, wait time.Duration) {
	seconds := failure.Seconds(wait)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	s.refuse(w, r, http.StatusTooManyRequests, v, v.T.TooManyTitle, fmt.Sprintf(v.T.SlowedText, seconds))
}

// ofSession returns the bucket for a session's status. A text without the shape of an id is never
// looked up; it counts for the address.
func ofSession(r *http.Request) storage.Bucket {
	owner := mux.Vars(r)["id"]
	if !checkout.IsID(checkout.PrefixSession, owner) {
		owner = limit.Address(r)
	}
	return storage.Bucket{Owner: owner, Kind: bucketSession, Rate: sessionRate}
}
