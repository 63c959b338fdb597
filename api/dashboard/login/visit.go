package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// ErrSignIn refuses a visitor who has to sign in first.
var ErrSignIn = fmt.Errorf("not signed in: %w", failure.Unauthorized)

const requestTimeout = 10 * time.Second

// SignedIn calls h for members whose role includes needs. It asks storage each time, so that a
// sign-out, a removal or a new role applies from the next request on.
func (s *Server) SignedIn(needs merchant.Role, h page.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)

		v, err := s.Visitor(r)
		if errors.Is(err, ErrSignIn) {
			AskToSignIn(w, r)
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
		if r.Method == http.MethodGet && s.Renderer.Cookie(r, lastCookie) != v.MerchantID() {
			got.Cookies = append(got.Cookies, s.Renderer.NewCookie(lastCookie, v.MerchantID(), 0))
		}
		s.Renderer.Write(w, v, got)
		return nil
	}
}

// anybody calls h without looking for a visitor.
func (s *Server) anybody(h page.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v := page.Nobody(r)
		got, err := h(v)
		if err == nil {
			s.Renderer.Write(w, v, got)
		}
		return err
	}
}

// Visitor returns the signed-in visitor: the person's member of the merchant in the path. A path without a merchant is
// of the one whose page was shown last. It returns ErrSignIn when the person has to sign in first, and
// checkout.ErrNotFound when the merchant is none of the person's.
func (s *Server) Visitor(r *http.Request) (page.Visit, error) {
	named := mux.Vars(r)["merchant"]
	merchant := cmp.Or(named, s.Renderer.Cookie(r, lastCookie))
	members, err := s.signedInMembers(r, merchant)
	if err != nil {
		return page.Visit{}, err
	}
	if len(members) == 0 {
		return page.Visit{}, ErrSignIn
	}
	at := slices.IndexFunc(members, func(m people.SignedInMember) bool { return m.MerchantID == merchant })
	if at < 0 && named != "" {
		return page.Visit{}, s.refuseMerchant(r, members[0].Member, named)
	}
	m := members[max(at, 0)]
	mode := checkout.ModeTest
	if mux.Vars(r)["mode"] == string(checkout.ModeLive) {
		mode = checkout.ModeLive
	}
	return page.Visit{
		Request: r, Member: m.Member, Merchant: m.Merchant, Suspended: m.Suspended, Mode: mode, Browser: m.Hash,
		Others: slices.DeleteFunc(members, func(o people.SignedInMember) bool { return o.MerchantID == m.MerchantID }),
	}, nil
}

// refuseMerchant returns why a person who is signed in elsewhere gets no page of a merchant: ErrSignIn when the person
// may sign in there, else checkout.ErrNotFound. Anyone who is signed in has proved ownership of the e-mail address.
func (s *Server) refuseMerchant(r *http.Request, person merchant.Member, merchantID string) error {
	all, err := s.People.MembersByEmail(r.Context(), person.Email)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(m people.MemberWithPassword) bool { return m.MerchantID == merchantID }) {
		return ErrSignIn
	}
	return checkout.ErrNotFound
}

// AskToSignIn leads the visitor to the sign-in page and back afterwards.
func AskToSignIn(w http.ResponseWriter, r *http.Request) {
	to := "/signin"
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if r.Header.Get("HX-Request") != "" {
		// htmx would fetch a redirect into a part of the page; this header moves the whole page.
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
