package dashboard

import (
	"errors"
	"net/http"
	"time"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// problem is the text of a page about an error.
type problem struct {
	Title string
	Text  string
}

// problemPage is the data of a page about an error.
type problemPage struct {
	problem
	Again bool // offers to open the same page again
}

// unread is the text for a page that PostgreSQL or Temporal could not give. Nothing was asked to be done.
var unread = problem{"Not available now", "This page cannot be shown now. Try again in a moment."}

// noInvitation is the text for the link of an invitation that is no longer valid.
var noInvitation = problem{
	"The invitation is not valid", "It was already used or has expired. Ask an owner for another.",
}

// problems are the texts for each kind of error.
var problems = map[failure.Kind]problem{
	failure.Internal:         {"Something went wrong", "It is our fault. We have logged the error."},
	failure.Invalid:          {"Not understood", "The form could not be read. Go back and try again."},
	failure.Unauthorized:     {"Not signed in", "Sign in first."},
	failure.Forbidden:        {"Not allowed", "Your role does not allow this, or the form came from another site."},
	failure.NotFound:         {"Not found", "This page does not exist, or it belongs to the other mode."},
	failure.MethodNotAllowed: {"Not possible", "This address does not support this method."},
	failure.Conflict:         {"Not possible now", "Something has changed in the meantime. Reload the page."},
	failure.TooLarge:         {"Too large", "The form is larger than this page accepts. Nothing was done."},
	failure.UnsupportedMedia: {"Not understood", "The form could not be read. Go back and try again."},
	failure.RateLimited:      {"Too many attempts", "Wait a minute, then try again."},
	failure.Busy:             {"Too busy now", "Nothing was done. Try again in a moment."},
	failure.Unavailable:      {"Not available now", "The outcome is unknown. Check before you try again."},
}

// conflicts are more exact texts for errors of kind Conflict.
var conflicts = []struct {
	err  error
	text string
}{
	{checkout.ErrNotPending, "The session has already ended."},
	{checkout.ErrPaymentInFlight, "A payment of the session is in progress. Check again in a moment."},
	{webhook.ErrDeliveryInProgress, "An attempt is running, or the delivery is waiting for the next one."},
	{webhook.ErrDeliveryNotPending, "The delivery has already ended."},
	{webhook.ErrDeliveryHeld, "The delivery is on hold. Resume it first."},
	{webhook.ErrEndpointDeleted, "The webhook was deleted, so nothing can be sent to it."},
	{webhook.ErrReplayRunning, "A bulk replay of this webhook is running. Wait until it ends, or cancel it."},
	{
		webhook.ErrReplayRate,
		"Your running bulk replays leave less than this rate. Wait until one ends, or choose a lower rate.",
	},
}

// retryAfter is how long a browser waits before it asks again for an unavailable page.
const retryAfter = time.Minute

// fail answers an error with the page for its kind.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, checkout.ErrWrongMode) { // the path names the mode, so the object is not found there
		err = failure.NotFound
	}
	kind := failure.KindOf(err)
	p := problems[kind]
	if errors.Is(err, login.ErrInvitation) {
		p = noInvitation
	}
	reads := r.Method == http.MethodGet
	if reads && kind == failure.Unavailable {
		p = unread
	}
	for _, c := range conflicts {
		if errors.Is(err, c.err) {
			p.Text = c.text
			break
		}
	}
	web.LogFailure(r, s.Log, "dashboard", kind.Status(), err)
	wait, later := failure.RetryAfter(kind, err, retryAfter)
	if later {
		w.Header().Set("Retry-After", wait)
	}
	s.renderProblem(w, r, kind, problemPage{p, reads && later})
}

// renderProblem renders a problem, with the navigation when the visitor is signed in. It does not
// look up the visitor of a request that was refused at the entrance.
func (s *server) renderProblem(w http.ResponseWriter, r *http.Request, kind failure.Kind, a problemPage) {
	v := page.Nobody(r)
	switch kind {
	case failure.RateLimited, failure.MethodNotAllowed:
	default:
		if known, err := s.login.Visitor(r); err == nil {
			v = known
		}
	}
	s.renderer.Render(w, v, kind.Status(), "problem", a.Title, a)
}

// failing answers every request with the page for a kind. It does not look up the visitor.
func (s *server) failing(kind failure.Kind) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := problemPage{problem: problems[kind]}
		s.renderer.Render(w, page.Nobody(r), kind.Status(), "problem", a.Title, a)
	})
}
