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

// visit is a request of a signed-in member.
type visit struct {
	*http.Request
	Member   checkout.Member
	Merchant string        // name
	Mode     checkout.Mode // from the path; test when the path has none

	// Several: this browser is, or was, signed in to other merchants too.
	Several bool

	browser []byte // SHA-256 of the browser's token
	notice  string // message about the last action
}

// ID returns the id in the path.
func (v visit) ID() string { return mux.Vars(v.Request)["id"] }

// Owner returns the visitor's merchant, in the page's mode.
func (v visit) Owner() checkout.Owner {
	return checkout.Owner{MerchantID: v.Member.MerchantID, Mode: v.Mode}
}

// MerchantID returns the id of the visitor's merchant.
func (v visit) MerchantID() string { return v.Member.MerchantID }

// Path returns the address of a page in the visit's mode.
func (v visit) Path(path string) string { return "/" + string(v.Mode) + path }

// May reports whether the visitor's role includes role.
func (v visit) May(role checkout.Role) bool { return v.Member.Role.May(role) }

// audit returns the audit log's entry for an action of the visitor in the visit's mode. detail is a
// text without secrets.
func (v visit) audit(what, subject, detail string) checkout.AuditEntry {
	e := v.auditBoth(what, subject, detail)
	e.Mode = &v.Mode
	return e
}

// auditBoth is audit for an action in both modes.
func (v visit) auditBoth(what, subject, detail string) checkout.AuditEntry {
	return action.Entry(v.Request, v.MerchantID(), v.Member.Email, what, subject, detail)
}

// handler returns the answer to a visitor. It never sees the ResponseWriter.
type handler func(v visit) (answer, error)

// answer is a page, or a redirect to location.
type answer struct {
	status   int
	page     string // name of the template
	title    string
	data     any
	location string
	notice   string    // for the page at location
	token    *string   // token of the browser's new session
	others   *[]string // tokens of the merchants that are not open
}

// show answers with a page.
func show(page, title string, data any) (answer, error) {
	return answer{status: http.StatusOK, page: page, title: title, data: data}, nil
}

// refuse answers a wrong form with its page again. data has the faults.
func refuse(page, title string, data any) (answer, error) {
	return answer{status: http.StatusUnprocessableEntity, page: page, title: title, data: data}, nil
}

// goTo answers an accepted form with a redirect. notice is a key of notices, "" for none.
func goTo(path, notice string) (answer, error) {
	return answer{status: http.StatusSeeOther, location: path, notice: notice}, nil
}

const requestTimeout = 10 * time.Second

// signedIn calls h for members whose role includes needs. It asks storage each time, so that a
// sign-out, a removal or a new role applies from the next request on.
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
		if !v.isFor(r.Header.Get(membershipHeader)) {
			w.Header().Set("HX-Refresh", "true") // the whole page becomes that of the merchant that is open
			return errOtherMerchant
		}
		if !v.May(needs) {
			return failure.Forbidden
		}
		if !uploads(r) { // brandChange reads an upload in its merchant's turn
			if err := v.checkMembership(); err != nil {
				return err
			}
		}

		got, err := h(v)
		if err != nil {
			return err
		}
		s.write(w, v, got)
		return nil
	}
}

// write writes a handler's answer.
func (s *server) write(w http.ResponseWriter, v visit, got answer) {
	if got.location == "" {
		v.notice = s.takeNotice(w, v.Request)
		s.render(w, v.Request, got.status, got.page, s.view(v, got.title, got.data))
		return
	}
	if got.token != nil {
		s.setCookie(w, memberCookie, *got.token, 0)
	}
	if got.others != nil {
		s.setOthers(w, *got.others)
	}
	if got.notice != "" {
		s.setCookie(w, noticeCookie, got.notice, noticeSeconds)
	}
	http.Redirect(w, v.Request, got.location, got.status)
}

// visitor returns the signed-in visitor. It returns checkout.ErrNotFound when nobody is signed in.
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
	return visit{
		Request: r, Member: member, Merchant: merchant, Mode: mode, browser: hash, Several: len(s.otherTokens(r)) > 0,
	}, err
}

// askToSignIn leads the visitor to the sign-in page and back afterwards.
func askToSignIn(w http.ResponseWriter, r *http.Request) {
	to := "/signin"
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if r.Header.Get(
		"HX-Request",
	) != "" { // htmx would fetch a redirect into a part of the page; this header moves the whole page
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
