package login

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// A browser that gave the right password has this cookie until it gives a code.
const (
	halfCookie   = "half"
	halfLifetime = 10 * time.Minute
)

// halfToken returns the value of the half cookie. The password's hash signs it, so that a new password
// ends it and nothing is stored.
func halfToken(m merchant.Member, passwordHash string, until int64) string {
	text := fmt.Sprintf("%s.%s.%d", m.MerchantID, m.ID, until)
	mac := hmac.New(sha256.New, []byte(passwordHash))
	mac.Write([]byte("a browser that gave the password " + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// halfSignedIn returns the member who gave the password in this browser, and the password's hash. It returns
// checkout.ErrNotFound when nobody did lately.
func (s *Server) halfSignedIn(r *http.Request) (m merchant.Member, passwordHash string, err error) {
	token := s.Renderer.Cookie(r, halfCookie)
	parts := strings.Split(token, ".")
	if len(parts) != 4 || !checkout.IsID(checkout.PrefixMember, parts[1]) {
		return m, "", checkout.ErrNotFound
	}
	until, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || time.Now().Unix() > until {
		return m, "", checkout.ErrNotFound
	}
	if m, err = s.People.Member(r.Context(), parts[0], parts[1]); err != nil {
		return m, "", err
	}
	if passwordHash, err = s.People.MemberPassword(r.Context(), m.MerchantID, m.ID); err != nil {
		return m, "", err
	}
	if !hmac.Equal([]byte(halfToken(m, passwordHash, until)), []byte(token)) {
		return m, "", checkout.ErrNotFound
	}
	return m, passwordHash, nil
}

// requireHalfSignIn calls h with what halfSignedIn returns, and leads a browser that gave no password lately to the
// sign-in page.
func (s *Server) requireHalfSignIn(
	h func(v page.Visit, m merchant.Member, passwordHash string) (page.Answer, error),
) page.Handler {
	return func(v page.Visit) (page.Answer, error) {
		m, hash, err := s.halfSignedIn(v.Request)
		if failure.KindOf(err) == failure.NotFound {
			return page.GoTo("/signin", "")
		}
		if err != nil {
			return page.Answer{}, err
		}
		return h(v, m, hash)
	}
}

// askForCode leads a browser that gave the right password to the page that asks for a code.
func (s *Server) askForCode(m merchant.Member, hash, next string) (page.Answer, error) {
	token := halfToken(m, hash, time.Now().Add(halfLifetime).Unix())
	return page.GoTo("/signin/code?"+url.Values{"next": {next}}.Encode(), "",
		s.Renderer.NewCookie(halfCookie, token, int(halfLifetime/time.Second)))
}
