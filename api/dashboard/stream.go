package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Times of a stream.
const (
	streamHeartbeat = 15 * time.Second // also how soon it ends after somebody signs out or is removed
	streamPatience  = 10 * time.Second // how long the browser may take to take what is written
)

// maxStreams is how many streams one person has in this process. A browser has one
// for each mode, whatever number of pages it shows (see dashboard.js), and must
// keep connections for the rest: it has six to a host.
const maxStreams = 5

// changed is what the page of the log hears: that it has to look again.
const changed = "event: delivery\ndata: changed\n\n"

// errNotLive says that the dashboard has no feed.
var errNotLive = fmt.Errorf("%w: the log is not live", failure.Unavailable)

// streamDeliveries serves GET /{mode}/deliveries/stream: an event whenever
// deliveries of the merchant and mode may have changed. It ends when the browser
// goes, the member may look no more, or the service stops.
func (s *server) streamDeliveries(w http.ResponseWriter, r *http.Request) error {
	v, err := s.mayListen(r)
	if errors.Is(err, checkout.ErrNotFound) {
		askToSignIn(w, r)
		return nil
	}
	if err != nil {
		return err
	}
	mine, ok := s.streams.TryEnter(v.Member.ID)
	if !ok {
		return fmt.Errorf("%w: too many live pages of one person", failure.RateLimited)
	}
	defer mine.Leave(false)
	sub, err := s.Feed.Subscribe(r.Context(), v.Owner())
	if err != nil {
		return err
	}
	defer sub.Close()
	s.tellChanges(w, v, sub)
	return nil
}

// mayListen finds out who wants to hear of changes. It returns
// checkout.ErrNotFound for nobody.
func (s *server) mayListen(r *http.Request) (visit, error) {
	turn, err := s.entrance.Enter(r)
	if err != nil {
		return visit{}, err
	}
	defer turn.Leave(false) // a stream has none: it only waits
	v, err := s.visitor(r)
	if err == nil && s.Feed == nil {
		err = errNotLive
	}
	return v, err
}

// tellChanges writes an event for each change until somebody goes.
func (s *server) tellChanges(w http.ResponseWriter, v visit, sub *storage.Subscription) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's is for requests that end; without one there is none to lift
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that collect answers must not
	heartbeat := time.NewTicker(s.heartbeat)
	defer heartbeat.Stop()
	text, later := ": here\n\n", (<-chan time.Time)(nil)
	for {
		// Until the next heartbeat nothing may be written, and the server's deadline must not end that.
		_ = control.SetWriteDeadline(time.Now().Add(s.heartbeat + streamPatience))
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		changes := sub.Changes
		if later != nil {
			changes = nil // is looked at then
		}
		select {
		case <-v.Context().Done():
			return
		case _, more := <-changes:
			if !more {
				return
			}
			text, later = changed, time.After(storage.FeedPace)
		case <-later:
			text, later = changed, nil
		case <-heartbeat.C:
			if text = ": here\n\n"; s.hasLeft(v) {
				_, _ = io.WriteString(w, changed) // so that the page asks to sign in; it ends anyway
				return
			}
		}
	}
}

// hasLeft reports whether the visitor is signed in no more.
func (s *server) hasLeft(v visit) bool {
	now, err := s.visitor(v.Request)
	return errors.Is(err, checkout.ErrNotFound) || err == nil && now.MerchantID() != v.MerchantID()
}
