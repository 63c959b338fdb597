package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
)

// visit is a request of somebody who is signed in.
type visit struct {
	*http.Request
	Member   checkout.Member
	Merchant string        // name
	Mode     checkout.Mode // of the path; test where the path has none

	browser []byte // SHA-256 of its token
	notice  string // what the page before has done, in words
}

// ID is the id in the path.
func (v visit) ID() string { return mux.Vars(v.Request)["id"] }

// Owner is the visitor's merchant in the mode that the page shows.
func (v visit) Owner() checkout.Owner {
	return checkout.Owner{MerchantID: v.Member.MerchantID, Mode: v.Mode}
}

// MerchantID is whose things the visitor may see.
func (v visit) MerchantID() string { return v.Member.MerchantID }

// Path is the address of a page of the visit's mode.
func (v visit) Path(path string) string { return "/" + string(v.Mode) + path }

// May reports whether the visitor may do what needs a role.
func (v visit) May(role checkout.Role) bool { return v.Member.Role.May(role) }

// audit is the entry of the audit log for something that the visitor does in
// the mode of the visit; detail is in words, without secrets.
func (v visit) audit(what, subject, detail string) checkout.AuditEntry {
	e := v.auditBoth(what, subject, detail)
	e.Mode = &v.Mode
	return e
}

// auditBoth is audit for what concerns both modes.
func (v visit) auditBoth(what, subject, detail string) checkout.AuditEntry {
	return action.Entry(v.Request, v.MerchantID(), v.Member.Email, what, subject, detail)
}

// handler decides what a visitor gets. It never sees the ResponseWriter.
type handler func(v visit) (answer, error)

// answer is a page, or where to go.
type answer struct {
	status   int
	page     string // name of the template
	title    string
	data     any
	location string
	notice   string  // for the page at location
	token    *string // of a new session for the browser
}

// show answers with a page.
func show(page, title string, data any) (answer, error) {
	return answer{status: http.StatusOK, page: page, title: title, data: data}, nil
}

// refuse answers a form that cannot be accepted with the page that it was on;
// data says why.
func refuse(page, title string, data any) (answer, error) {
	return answer{status: http.StatusUnprocessableEntity, page: page, title: title, data: data}, nil
}

// goTo answers a form that was accepted. notice is a key of notices, "" for none.
func goTo(path, notice string) (answer, error) {
	return answer{status: http.StatusSeeOther, location: path, notice: notice}, nil
}

const requestTimeout = 10 * time.Second

// signedIn lets members with at least the role needed through to h. It asks
// storage each time, so that signing out, a removal and a change of role hold
// from the next request on.
func (s *server) signedIn(needs checkout.Role, h handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)

		v, err := s.visitor(r)
		if errors.Is(err, checkout.ErrNotFound) {
			askToSignIn(w, r)
			return nil
		}
		if err != nil {
			return err
		}
		if !v.May(needs) {
			return failure.Forbidden
		}

		got, err := h(v)
		if err != nil {
			return err
		}
		s.write(w, v, got)
		return nil
	}
}

// write writes what a visitor gets.
func (s *server) write(w http.ResponseWriter, v visit, got answer) {
	if got.location == "" {
		v.notice = s.takeNotice(w, v.Request)
		s.render(w, v.Request, got.status, got.page, s.view(v, got.title, got.data))
		return
	}
	if got.token != nil {
		s.setCookie(w, memberCookie, *got.token, 0)
	}
	if got.notice != "" {
		s.setCookie(w, noticeCookie, got.notice, noticeSeconds)
	}
	http.Redirect(w, v.Request, got.location, got.status)
}

// visitor finds out who asks. It returns checkout.ErrNotFound for nobody.
func (s *server) visitor(r *http.Request) (visit, error) {
	cookie, err := r.Cookie(s.cookieName(memberCookie))
	if err != nil {
		return visit{}, checkout.ErrNotFound
	}
	hash := checkout.HashToken(cookie.Value)
	member, merchant, err := s.Store.SignedIn(r.Context(), hash)
	mode := checkout.ModeTest
	if mux.Vars(r)["mode"] == string(checkout.ModeLive) {
		mode = checkout.ModeLive
	}
	return visit{Request: r, Member: member, Merchant: merchant, Mode: mode, browser: hash}, err
}

// askToSignIn sends the visitor to sign in, and back afterwards.
func askToSignIn(w http.ResponseWriter, r *http.Request) {
	to := "/signin"
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if r.Header.Get("HX-Request") != "" { // a part of a page cannot sign in: the whole of it goes, and is no redirect to fetch
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
