package login

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"image/png"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/workflows/checkout"
)

// factorPage shows a new secret, which the person's app must read.
type factorPage struct {
	Picture template.URL // data: address of the QR code; "" when the app has read it
	Secret  string       // in groups, for typing
	Fault   string
}

const factorTitle = "Turn the second factor on"

// startFactor serves POST …/account/second_factor. It needs the password: somebody who found an open browser
// could otherwise lock its owner out. Only its answer shows the secret: another page would show it to
// a thief of the session.
func (s *Server) startFactor(v page.Visit) (page.Answer, error) {
	if v.Member.App {
		return page.GoTo(v.Path("/account"), "")
	}
	unconfirmed, err := s.RequireProof(v, ConfirmPage{
		Text: "You will then sign in with your password and a code from an app on your phone.", Button: "Continue",
		Back: v.Path("/account"),
	})
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	if err := s.Secrets.StartSecondFactor(v.Context(), v.MerchantID(), v.Member.ID, secret); err != nil {
		return page.Answer{}, err
	}
	p, err := newFactorPage(v, secret)
	return page.ShowAfter(err, "second_factor", factorTitle, p)
}

// showFactor serves GET …/account/second_factor, for a browser that goes back or repeats its last address.
func (s *Server) showFactor(v page.Visit) (page.Answer, error) {
	return page.GoTo(v.Path("/account"), "")
}

func newFactorPage(v page.Visit, secret []byte) (factorPage, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer:      strings.ReplaceAll(v.Merchant, ":", " "), // apps split the label at the colon
		AccountName: v.Member.Email, Secret: secret, Period: codeSeconds,
	})
	if err != nil {
		return factorPage{}, fmt.Errorf("second factor: %w", err)
	}
	const pixels = 240
	picture, err := key.Image(pixels, pixels)
	if err != nil {
		return factorPage{}, fmt.Errorf("draw the second factor: %w", err)
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		return factorPage{}, fmt.Errorf("draw the second factor: %w", err)
	}
	return factorPage{
		Picture: template.URL("data:image/png;base64," + //nolint:gosec // G203: drawn here
			base64.StdEncoding.EncodeToString(encoded.Bytes())),
		Secret: inGroups(key.Secret()),
	}, nil
}

// inGroups puts a space after every four characters.
func inGroups(text string) string {
	var b strings.Builder
	for i, c := range text {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// confirmFactor serves POST …/account/second_factor/code. The first code turns the second factor on, and the
// page that follows shows the recovery codes.
func (s *Server) confirmFactor(v page.Visit) (page.Answer, error) {
	if err := s.mayGuessCode(v.Request, v.Member, v.Browser); err != nil {
		return page.Answer{}, err
	}
	codes, hashes := newRecoveryCodes()
	set, text := setOfCodes(v, hashes), strings.Join(codes, "\n")
	got, err := page.CreateAndReveal(s.Secrets, v, set, text, pageOfCodes(v), func() error {
		return s.Secrets.ConfirmSecondFactor(
			v.Context(), v.MerchantID(), v.Member.ID, checkCode(plainCode(v.PostFormValue("code")), time.Now()), hashes,
			v.Browser, v.AuditBoth("member.second_factor_on", v.Member.ID, "second factor: off → on"),
		)
	})
	if !errors.Is(err, checkout.ErrNotFound) {
		return got, err
	}
	_, err = s.Secrets.StartedSecondFactor(v.Context(), v.MerchantID(), v.Member.ID)
	if errors.Is(err, checkout.ErrNotFound) {
		return page.GoTo(v.Path("/account"), "")
	}
	if err != nil {
		return page.Answer{}, err
	}
	return page.Refuse("second_factor", factorTitle, factorPage{
		Fault: "This code is wrong. Check your phone's clock, and wait for the next code.",
	})
}

// setOfCodes names one set of recovery codes. Two tabs may make two sets of which only one is stored, and a
// tab must not show the codes of the other.
func setOfCodes(v page.Visit, hashes [][]byte) string {
	return v.Member.ID + "-" + hex.EncodeToString(hashes[0][:8])
}

// pageOfCodes returns a function from a set of recovery codes to the address of the page that shows it.
func pageOfCodes(v page.Visit) func(set string) string {
	return func(set string) string { return v.Path("/account/recovery_codes?") + url.Values{"set": {set}}.Encode() }
}

// showRecoveryCodes serves GET …/account/recovery_codes, once for each set.
func (s *Server) showRecoveryCodes(v page.Visit) (page.Answer, error) {
	codes, err := s.Secrets.TakeReveal(v.Context(), v.Reveal(v.URL.Query().Get("set")))
	if err != nil {
		return page.ExplainMissingReveal(err, v.Path("/account"))
	}
	return page.Show("recovery_codes", "Your recovery codes", strings.Split(codes, "\n"))
}

var factorOff = page.Notice("second_factor_off", "App codes are no longer accepted.")

// removeFactor serves POST …/account/second_factor/remove.
func (s *Server) removeFactor(v page.Visit) (page.Answer, error) {
	if !v.Member.App {
		return page.GoTo(v.Path("/account"), page.NothingChanged)
	}
	text := "Anyone who knows your password can then sign in as you."
	if v.Member.Passkeys > 0 {
		text = "App codes will no longer be accepted. Your passkeys and recovery codes stay."
	}
	unconfirmed, err := s.RequireProof(v, ConfirmPage{Text: text, Button: "Turn it off", Back: v.Path("/account")})
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	err = s.People.RemoveSecondFactor(v.Context(), v.MerchantID(), v.Member.ID,
		v.AuditBoth("member.second_factor_off", v.Member.ID, "second factor: on → off"))
	return page.GoToAfter(err, v.Path("/account"), factorOff)
}
