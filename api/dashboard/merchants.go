package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// A person may belong to several merchants, with a password and a second factor for each. A browser may be signed in to
// several of them: the cookie member has the token of the merchant that is open, and the cookie others has the rest.
const (
	othersCookie = "others"
	maxOthers    = 9
)

// errOtherMerchant refuses a form that was shown before another merchant was opened in this browser.
var errOtherMerchant = fmt.Errorf("the form is of another merchant: %w", failure.Conflict)

// membershipField is the field of every form that names the member for whom the page was made.
const membershipField = "membership"

// membershipHeader is the same for htmx, which loads parts of a page.
const membershipHeader = "Membership"

// isFor reports whether a page that was made for a member is for the visitor. "" is a request that does not say it.
func (v visit) isFor(member string) bool { return member == "" || member == v.Member.ID }

// checkMembership returns errOtherMerchant for a form that was shown to another of the person's members.
func (v visit) checkMembership() error {
	if !v.isFor(v.PostFormValue(membershipField)) {
		return errOtherMerchant
	}
	return nil
}

// signedInElse is a merchant to which the browser is signed in, and which is not open.
type signedInElse struct {
	storage.SignedInMember

	token string
}

// otherTokens returns the tokens of the merchants that are not open.
func (s *server) otherTokens(r *http.Request) []string {
	return s.valuesOf(r, othersCookie, maxOthers)
}

// others returns the other merchants to which one person is signed in with tokens. A person is an e-mail address.
func (s *server) others(ctx context.Context, tokens []string, person checkout.Member) ([]signedInElse, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	members, err := s.Store.SignedInMembers(ctx, hashesOf(tokens))
	if err != nil {
		return nil, err
	}
	var others []signedInElse
	for _, m := range members {
		if m.ID == person.ID || !strings.EqualFold(m.Email, person.Email) {
			continue
		}
		i := slices.IndexFunc(tokens, func(token string) bool { return bytes.Equal(checkout.HashToken(token), m.Hash) })
		others = append(others, signedInElse{m, tokens[i]})
	}
	return others, nil
}

// keepOthers returns the tokens of a browser that stay valid when person signs in, and signs the browser out of the
// rest: of another person, and of the same merchant.
func (s *server) keepOthers(r *http.Request, person checkout.Member) (kept []string, err error) {
	tokens := s.tokens(r)
	others, err := s.others(r.Context(), tokens, person)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		kept = append(kept, o.token)
	}
	kept = kept[:min(len(kept), maxOthers)]
	gone := slices.DeleteFunc(tokens, func(token string) bool { return slices.Contains(kept, token) })
	return kept, s.Store.SignOut(r.Context(), hashesOf(gone)...)
}

// tokens returns every token of a browser.
func (s *server) tokens(r *http.Request) []string {
	tokens := s.otherTokens(r)
	if cookie, err := r.Cookie(s.cookieName(memberCookie)); err == nil && cookie.Value != "" {
		tokens = append(tokens, cookie.Value)
	}
	return tokens
}

func hashesOf(tokens []string) [][]byte {
	hashes := make([][]byte, len(tokens))
	for i, token := range tokens {
		hashes[i] = checkout.HashToken(token)
	}
	return hashes
}

// setOthers stores the tokens of the merchants that are not open.
func (s *server) setOthers(w http.ResponseWriter, tokens []string) {
	if len(tokens) == 0 {
		s.setCookie(w, othersCookie, "", -1)
		return
	}
	s.setCookie(w, othersCookie, strings.Join(tokens, "."), 0)
}

// forget signs the browser out of every merchant.
func (s *server) forget(w http.ResponseWriter, r *http.Request) error {
	if err := s.Store.SignOut(r.Context(), hashesOf(s.tokens(r))...); err != nil {
		return err
	}
	s.setCookie(w, memberCookie, "", -1)
	s.setOthers(w, nil)
	return nil
}

// openMerchant serves POST /account/merchants/{id}: it opens another merchant to which the browser is signed in. When
// that has ended, the person signs in again.
func (s *server) openMerchant(v visit) (answer, error) {
	id := v.ID()
	tokens := s.otherTokens(v.Request)
	others, err := s.others(v.Context(), tokens, v.Member)
	if err != nil {
		return answer{}, err
	}
	i := slices.IndexFunc(others, func(o signedInElse) bool { return o.MerchantID == id })
	if i < 0 {
		return goTo("/signin?other=1&merchant="+url.QueryEscape(id), "")
	}
	open, err := v.Cookie(s.cookieName(memberCookie))
	if err != nil {
		return answer{}, err // the visitor is known by it
	}
	rest := []string{open.Value}
	for _, o := range slices.Concat(others[:i], others[i+1:]) {
		rest = append(rest, o.token)
	}
	got, err := goTo("/", "")
	got.token, got.others = &others[i].token, &rest
	return got, err
}
