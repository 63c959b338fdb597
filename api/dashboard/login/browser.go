package login

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"example.com/checkout/storage/account"
	"example.com/checkout/workflows/checkout"
)

// A person may belong to several merchants, with a password and a second factor for each. A browser may be signed in to
// several of them: the cookie member has the token of the merchant that is open, and the cookie others has the rest.
const (
	memberCookie = "member"
	othersCookie = "others"
	maxOthers    = 9
)

// valuesOf returns the values, joined by points, of a cookie: most of them at most.
func (s *Server) valuesOf(r *http.Request, name string, most int) []string {
	value := s.Face.Cookie(r, name)
	if value == "" {
		return nil
	}
	values := strings.Split(value, ".")
	return values[:min(len(values), most)]
}

// otherTokens returns the tokens of the merchants that are not open.
func (s *Server) otherTokens(r *http.Request) []string {
	return s.valuesOf(r, othersCookie, maxOthers)
}

// tokens returns every token of a browser.
func (s *Server) tokens(r *http.Request) []string {
	tokens := s.otherTokens(r)
	if open := s.Face.Cookie(r, memberCookie); open != "" {
		tokens = append(tokens, open)
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

// memberCookieOf returns the cookie with the token of the merchant that is open.
func (s *Server) memberCookieOf(token string) *http.Cookie {
	return s.Face.NewCookie(memberCookie, token, 0)
}

// othersCookieOf returns the cookie with the tokens of the merchants that are not open.
func (s *Server) othersCookieOf(tokens []string) *http.Cookie {
	if len(tokens) == 0 {
		return s.Face.NewCookie(othersCookie, "", -1)
	}
	return s.Face.NewCookie(othersCookie, strings.Join(tokens, "."), 0)
}

// signedInElse is a merchant to which the browser is signed in, and which is not open.
type signedInElse struct {
	account.SignedInMember

	token string
}

// others returns the other merchants to which one person is signed in with tokens. A person is an e-mail address.
func (s *Server) others(ctx context.Context, tokens []string, person checkout.Member) ([]signedInElse, error) {
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
func (s *Server) keepOthers(r *http.Request, person checkout.Member) (kept []string, err error) {
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

// forget signs the browser out of every merchant.
func (s *Server) forget(w http.ResponseWriter, r *http.Request) error {
	if err := s.Store.SignOut(r.Context(), hashesOf(s.tokens(r))...); err != nil {
		return err
	}
	s.Face.SetCookie(w, memberCookie, "", -1)
	http.SetCookie(w, s.othersCookieOf(nil))
	return nil
}
