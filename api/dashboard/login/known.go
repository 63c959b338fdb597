package login

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// A browser is known to an account for half a year after it signed in, or until the password changes.
const (
	knownCookie  = "known"
	knownSeconds = 180 * 24 * 60 * 60
	maxKnown     = 1 + maxOthers
)

// knownBrowsers returns the values that a browser keeps, one for each account that signed in.
func (s *Server) knownBrowsers(r *http.Request) []string {
	return s.valuesOf(r, knownCookie, maxKnown)
}

// isKnown reports whether the account with the password of hash was signed in before in the browser.
func (s *Server) isKnown(r *http.Request, hash string) bool {
	known := knownBrowser(hash)
	return hash != "" && slices.ContainsFunc(s.knownBrowsers(r), func(value string) bool {
		return hmac.Equal([]byte(value), []byte(known))
	})
}

// knownCookieOf makes a browser keep the value for the account with the password of hash, and those for the others.
func (s *Server) knownCookieOf(r *http.Request, hash string) *http.Cookie {
	values := []string{knownBrowser(hash)}
	for _, value := range s.knownBrowsers(r) {
		if value != values[0] && len(values) < maxKnown {
			values = append(values, value)
		}
	}
	return s.Renderer.NewCookie(knownCookie, strings.Join(values, "."), knownSeconds)
}

// knownBrowser returns the value that a browser keeps after signing in with the password of hash.
// The value reveals nothing about the password and is useless without it.
func knownBrowser(hash string) string {
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write([]byte("a browser that has signed in"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
