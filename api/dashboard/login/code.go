package login

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Codes of an app. Source: RFC 6238, with the defaults that apps know.
const (
	codeSeconds = 30
	codeSkew    = 1 // steps that a clock may differ
	secretBytes = 20
)

// Recovery codes. Each has 80 random bits, so its SHA-256 cannot be searched.
const (
	recoveryCodes     = 10
	recoveryCodeBytes = 10
)

// checkCode looks for the time step of a typed code at the time now.
func checkCode(code string, now time.Time) people.CodeCheck {
	return func(secret []byte, after int64) (int64, bool) {
		key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
		middle := now.Unix() / codeSeconds
		for step := max(middle-codeSkew, after+1); step <= middle+codeSkew; step++ {
			want, err := hotp.GenerateCode(key, uint64(step)) //nolint:gosec // G115: a time after 1970
			if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
				return step, true
			}
		}
		return 0, false
	}
}

// plainCode removes what people and pages write between the characters of a code.
func plainCode(typed string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(typed))
}

var recoveryEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newRecoveryCodes returns codes in groups of four characters, and their hashes.
func newRecoveryCodes() (codes []string, hashes [][]byte) {
	for range recoveryCodes {
		var b [recoveryCodeBytes]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		c := recoveryEncoding.EncodeToString(b[:])
		codes = append(codes, c[:4]+"-"+c[4:8]+"-"+c[8:12]+"-"+c[12:])
		hashes = append(hashes, merchant.HashToken(c))
	}
	return codes, hashes
}

// factorFault checks the answer of a passkey, a code of the member's app or a recovery code, and uses it up. It
// returns "" when it is right, else a fault. The audit log notes a wrong one, because its sender knows the password.
// c is the ceremony in which a passkey may answer.
func (s *Server) factorFault(r *http.Request, m merchant.Member, c ceremony) (fault string, err error) {
	code, passkey := plainCode(r.PostFormValue("code")), r.PostFormValue("passkey") != ""
	if code == "" && !passkey {
		return "Use a passkey, or enter a code from your app or a recovery code.", nil
	}
	var browser []byte
	if c.purpose == toStepUp {
		browser = c.browser
	}
	if err := s.mayGuessCode(r, m, browser); errors.Is(err, errGuesses) {
		return tooMany, nil
	} else if err != nil {
		return "", err
	}
	if passkey {
		return s.passkeyFault(r, m, c)
	}
	ok, err := s.useCode(r, m, code)
	if err != nil || ok {
		return "", err
	}
	return "This code is wrong or was already used. Wait for the next one.", s.AuditLog.Audit(
		r.Context(), page.Entry(r, m, "member.code_refused", "at "+r.URL.Path),
	)
}

func (s *Server) useCode(r *http.Request, m merchant.Member, code string) (ok bool, err error) {
	if len(code) == otp.DigitsSix.Length() {
		ok, err = s.Secrets.UseCode(r.Context(), m.MerchantID, m.ID, checkCode(code, time.Now()))
	} else {
		ok, err = s.People.UseRecoveryCode(r.Context(), m.MerchantID, m.ID, merchant.HashToken(code),
			page.Entry(r, m, "member.recovery_code_used", "recovery code used at "+r.URL.Path))
	}
	if errors.Is(err, checkout.ErrNotFound) {
		return false, nil
	}
	return ok, err
}
