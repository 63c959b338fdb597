package dashboard

import (
	"errors"
	"io"
	"net/http"
	"time"

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

// streamDeliveries serves GET /{mode}/deliveries/stream: an event whenever
// deliveries of the merchant and mode may have changed. It ends when the browser
// goes, the member may look no more, or the service stops.
func (s *server) streamDeliveries(w http.ResponseWriter, r *http.Request) {
	v, ok := s.mayListen(w, r)
	if !ok {
		return
	}
	mine, ok := s.streams.TryEnter(v.Member.ID)
	if !ok {
		http.Error(w, "There are too many live pages of yours.", http.StatusTooManyRequests)
		return
	}
	defer mine.Leave(false)
	sub, err := s.Feed.Subscribe(r.Context(), v.Owner())
	if err != nil {
		s.Log.WarnContext(r.Context(), "stream of deliveries", "error", err)
		http.Error(w, "Not available now.", http.StatusServiceUnavailable)
		return
	}
	defer sub.Close()
	s.tellChanges(w, v, sub)
}

// mayListen finds out who wants to hear of changes; otherwise it has answered.
func (s *server) mayListen(w http.ResponseWriter, r *http.Request) (visit, bool) {
	turn, ok := s.admit(w, r)
	if !ok {
		return visit{}, false
	}
	defer turn.Leave(false) // a stream has none: it only waits
	v, err := s.visitor(r)
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		s.askToSignIn(w, r)
		return visit{}, false
	case err != nil || s.Feed == nil:
		http.Error(w, "Not available now.", http.StatusServiceUnavailable)
		return visit{}, false
	}
	return v, true
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
