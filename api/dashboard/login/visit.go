package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
)

// ErrOtherMerchant refuses a form that was shown before another merchant was opened in this browser.
var ErrOtherMerchant = fmt.Errorf("the form is of another merchant: %w", failure.Conflict)

// membershipField is the field of every form that names the member for whom the page was made.
const membershipField = "membership"

// membershipHeader is the same for htmx, which loads parts of a page.
const membershipHeader = "Membership"

// CheckMembership returns ErrOtherMerchant for a form that was shown to another of the person's members. SignedIn calls
// it, but not for an Upload.
func CheckMembership(v face.Visit) error {
	if !v.IsFor(v.PostFormValue(membershipField)) {
		return ErrOtherMerchant
	}
	return nil
}

const requestTimeout = 10 * time.Second

// SignedIn calls h for members whose role includes needs. It asks storage each time, so that a
// sign-out, a removal or a new role applies from the next request on.
func (s *Server) SignedIn(needs checkout.Role, h face.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)

		v, err := s.Visitor(r)
		if errors.Is(err, checkout.ErrNotFound) {
			AskToSignIn(w, r)
			return nil
		}
		if err != nil {
			return err
		}
		if !v.IsFor(r.Header.Get(membershipHeader)) {
			w.Header().Set("HX-Refresh", "true") // the whole page becomes that of the merchant that is open
			return ErrOtherMerchant
		}
		if !v.May(needs) {
			return failure.Forbidden
		}
		if !Upload(r) { // its handler reads it in its merchant's turn
			if err := CheckMembership(v); err != nil {
				return err
			}
		}

		got, err := h(v)
		if err != nil {
			return err
		}
		s.Face.Write(w, v, got)
		return nil
	}
}

// Visitor returns the signed-in visitor. It returns checkout.ErrNotFound when nobody is signed in.
func (s *Server) Visitor(r *http.Request) (face.Visit, error) {
	token := s.Face.Cookie(r, memberCookie)
	if token == "" {
		return face.Visit{}, checkout.ErrNotFound
	}
	hash := checkout.HashToken(token)
	member, merchant, err := s.Store.SignedIn(r.Context(), hash)
	mode := checkout.ModeTest
	if mux.Vars(r)["mode"] == string(checkout.ModeLive) {
		mode = checkout.ModeLive
	}
	return face.Visit{
		Request: r, Member: member, Merchant: merchant, Mode: mode, Browser: hash, Several: len(s.otherTokens(r)) > 0,
	}, err
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

// Upload reports whether the body of a request is a form with a file.
func Upload(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/")
}
