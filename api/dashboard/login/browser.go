package login

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/merchant"
)

// A person may belong to several merchants, with a password and a second factor for each. A browser may be signed in to
// several of them: the cookie member has the token of the newest sign-in, and the cookie others has the rest. A page's
// address names the merchant. The cookie last names the merchant whose page was shown last, for addresses that
// name none; it opens nothing.
const (
	memberCookie = "member"
	othersCookie = "others"
	lastCookie   = "last"
	maxOthers    = 9
)

// valuesOf returns the values, joined by points, of a cookie: most of them at most.
func (s *Server) valuesOf(r *http.Request, name string, most int) []string {
	value := s.Renderer.Cookie(r, name)
	if value == "" {
		return nil
	}
	values := strings.Split(value, ".")
	return values[:min(len(values), most)]
}

// tokens returns every token of a browser.
func (s *Server) tokens(r *http.Request) []string {
	return append(s.valuesOf(r, memberCookie, 1), s.valuesOf(r, othersCookie, maxOthers)...)
}

// tokenOf returns the token with which a visitor is signed in.
func (s *Server) tokenOf(v page.Visit) string {
	tokens := s.tokens(v.Request)
	return tokens[slices.IndexFunc(tokens, func(token string) bool {
		return bytes.Equal(merchant.HashToken(token), v.Browser)
	})]
}

func hashesOf(tokens []string) [][]byte {
	hashes := make([][]byte, len(tokens))
	for i, token := range tokens {
		hashes[i] = merchant.HashToken(token)
	}
	return hashes
}

// cookiesOf returns the cookies of a browser with these tokens.
func (s *Server) cookiesOf(tokens ...string) []*http.Cookie {
	newest := tokens[:min(len(tokens), 1)]
	return []*http.Cookie{s.cookieOf(memberCookie, newest), s.cookieOf(othersCookie, tokens[len(newest):])}
}

// cookieOf returns a cookie with values that valuesOf reads. It removes the cookie when there are none.
func (s *Server) cookieOf(name string, values []string) *http.Cookie {
	if len(values) == 0 {
		return s.Renderer.NewCookie(name, "", -1)
	}
	return s.Renderer.NewCookie(name, strings.Join(values, "."), 0)
}

// signedInMembers returns the members of a browser, the newest sign-in first. It counts as use of a merchant, "" for
// none. All belong to one e-mail address: a token of another person in a cookie opens nothing.
func (s *Server) signedInMembers(r *http.Request, merchantID string) (all []people.SignedInMember, err error) {
	hashes := hashesOf(s.tokens(r))
	if len(hashes) == 0 {
		return nil, nil
	}
	found, err := s.People.SignedIn(r.Context(), merchantID, hashes...)
	for _, hash := range hashes {
		for _, m := range found {
			if bytes.Equal(m.Hash, hash) && (len(all) == 0 || strings.EqualFold(m.Email, all[0].Email)) {
				all = append(all, m)
			}
		}
	}
	return all, err
}

// signOutOthers returns the tokens of a browser that stay valid when person signs in, and signs the browser out of the
// rest: of another person, and of the same merchant.
func (s *Server) signOutOthers(r *http.Request, person merchant.Member) (kept []string, err error) {
	members, err := s.signedInMembers(r, "")
	if err != nil {
		return nil, err
	}
	tokens := s.tokens(r)
	for _, token := range tokens[:min(len(tokens), maxOthers)] {
		if slices.ContainsFunc(members, func(m people.SignedInMember) bool {
			return m.ID != person.ID && strings.EqualFold(m.Email, person.Email) &&
				bytes.Equal(merchant.HashToken(token), m.Hash)
		}) {
			kept = append(kept, token)
		}
	}
	gone := slices.DeleteFunc(tokens, func(token string) bool { return slices.Contains(kept, token) })
	return kept, s.People.SignOut(r.Context(), hashesOf(gone)...)
}

// signOutBrowser signs the browser out of every merchant. It returns the cookies that remove its tokens.
func (s *Server) signOutBrowser(r *http.Request) ([]*http.Cookie, error) {
	return s.cookiesOf(), s.People.SignOut(r.Context(), hashesOf(s.tokens(r))...)
}
