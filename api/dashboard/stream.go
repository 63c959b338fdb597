package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

const (
	streamHeartbeat = 15 * time.Second // a stream ends this soon after its member signs out or is removed
	streamPatience  = 10 * time.Second // time for the browser to accept a write
)

// maxStreams bounds the streams of one person in this process. A browser opens one stream for each
// mode, however many pages it shows; see dashboard.js. It opens only six connections to a host, and
// other requests need some of them.
const maxStreams = 5

// changed tells the page of the log to load its changes.
const changed = "event: delivery\ndata: changed\n\n"

// errNotLive means that the dashboard has no live log.
var errNotLive = fmt.Errorf("%w: live updates are not configured", failure.Unavailable)

// streamed serves what lasts longer than a page, of which a person has few at once: live pages and downloads. It has
// what the pages show to members of every role. visitor returns who asks, and h writes the answer.
func (s *server) streamed(
	visitor func(*http.Request) (face.Visit, error), h func(face.Visit, http.ResponseWriter, *http.Request) error,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := visitor(r)
		if errors.Is(err, login.ErrSignIn) {
			login.AskToSignIn(w, r)
			return nil
		}
		if err != nil {
			return err
		}
		mine, ok := s.streams.TryEnter(v.Member.ID)
		if !ok {
			return fmt.Errorf("%w: this person has too many live pages or downloads open", failure.RateLimited)
		}
		defer mine.Leave(false)
		return h(v, w, r)
	}
}

// streamDeliveries serves GET …/deliveries/stream. It sends an event whenever deliveries of
// the merchant and mode may have changed. It ends when the browser closes it, when the member may
// no longer see deliveries, or when the service stops.
func (s *server) streamDeliveries(v face.Visit, w http.ResponseWriter, r *http.Request) error {
	sub, err := s.LiveLog.Subscribe(r.Context(), v.Owner())
	if err != nil {
		return err
	}
	defer sub.Close()
	s.tellChanges(w, v, sub)
	return nil
}

// mayListen returns the visitor of a stream, or the error of login.Server.Visitor.
func (s *server) mayListen(r *http.Request) (face.Visit, error) {
	turn, err := s.entrance.Enter(r)
	if err != nil {
		return face.Visit{}, err
	}
	defer turn.Leave(false) // a stream keeps no turn, because it only waits
	v, err := s.login.Visitor(r)
	if err == nil && s.LiveLog == nil {
		err = errNotLive
	}
	return v, err
}

// tellChanges writes an event for each change until the stream ends.
func (s *server) tellChanges(w http.ResponseWriter, v face.Visit, sub *storage.Subscription) {
	control := http.NewResponseController(w)
	// The server's deadline is for short requests; an error means that there is none.
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // tells proxies not to buffer the stream

	heartbeat := time.NewTicker(s.heartbeat)
	defer heartbeat.Stop()
	text, later := ": here\n\n", (<-chan time.Time)(nil)

	for {
		// The stream may be silent until the next heartbeat. The server's deadline must not end it.
		_ = control.SetWriteDeadline(time.Now().Add(s.heartbeat + streamPatience))
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}

		changes := sub.Changes
		if later != nil {
			changes = nil // an event follows at later anyway
		}

		select {
		case <-v.Context().Done():
			return
		case _, more := <-changes:
			if !more {
				return
			}
			text, later = changed, time.After(storage.LiveLogPace)
		case <-later:
			text, later = changed, nil
		case <-heartbeat.C:
			if text = ": here\n\n"; s.hasLeft(v) {
				_, _ = io.WriteString(w, changed) // makes the page load, and so ask to sign in
				return
			}
		}
	}
}

// hasLeft reports whether the visitor is no longer signed in to the merchant.
func (s *server) hasLeft(v face.Visit) bool {
	_, err := s.login.Visitor(v.Request)
	return errors.Is(err, login.ErrSignIn) || errors.Is(err, checkout.ErrNotFound)
}
