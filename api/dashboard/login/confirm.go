package login

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/passhash"
	"example.com/checkout/storage"
)

// CheckProof checks who sits at the browser before a dangerous action: by a passkey, which verifies the person, or by
// the visitor's password, and a code when the visitor has a second factor. It returns "" when they are right, else a
// fault. The audit log notes a wrong password, because a stranger may sit at the member's browser.
func (s *Server) CheckProof(v page.Visit) (fault string, err error) {
	if v.PostFormValue("passkey") != "" {
		return s.factorFault(v.Request, v.Member, ceremony{toStepUp, v.Browser})
	}
	hash, err := s.People.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return "", err
	}
	err = s.allow(v.Request, storage.Bucket{ // the browser's own: a stranger's guesses must not stop its person
		Owner: ownerOf(v.Member.ID, hex.EncodeToString(v.Browser)), Kind: bucketKnown, Rate: accountRate,
	})
	if errors.Is(err, errGuesses) {
		return tooMany, nil
	}
	if err != nil {
		return "", err
	}
	ok, err := passhash.Same(v.Context(), v.PostFormValue("password"), hash)
	switch {
	case err != nil:
		return "", err
	case ok && v.Member.SecondFactor():
		return s.factorFault(v.Request, v.Member, ceremony{toStepUp, v.Browser})
	case ok:
		return "", nil
	}
	return "The password is wrong.", s.AuditLog.Audit(
		v.Context(), v.AuditBoth("member.password_refused", v.Member.ID, "at "+v.URL.Path),
	)
}

// ConfirmPage asks who sits at the browser before a dangerous action: for a passkey, or for the password, and for a
// code when the visitor has a second factor.
type ConfirmPage struct {
	Text   string // describes the action
	Button string
	Back   string     // path
	Path   string     // of the form
	Fields url.Values // the form's fields, sent again with the proof
	Fault  string
	// Grave actions concern live keys, who may make them, and large live refunds. They can need a second factor; so can
	// a change of a live payout address, which calls RequireSecondFactor.
	Grave bool
}

// RequireSecondFactor leads a visitor without a second factor to the page with the steps to set one up. It returns nil
// when the visitor has one or need not. back is the path of the page before.
func (s *Server) RequireSecondFactor(v page.Visit, back string) (*page.Answer, error) {
	if !s.RequireFactor || v.Member.SecondFactor() {
		return nil, nil
	}
	got, err := page.GoTo(v.Path("/account/needs_factor?")+url.Values{"back": {back}}.Encode(), "")
	return &got, err
}

// showNeedsFactor serves GET …/account/needs_factor.
func (s *Server) showNeedsFactor(v page.Visit) (page.Answer, error) {
	return page.Show("needs_factor", "Set up a second factor first", safeNext(v.URL.Query().Get("back")))
}

// proofs are the fields of the template "step_up".
var proofs = []string{"password", "code", "passkey", "username"}

const confirmTitle = "Confirm your identity"

// RequireProof leads the visitor to the page that asks who they are. It returns nil when the form proves it. The page
// is the answer to a GET, so that a browser that goes back sends no form again.
func (s *Server) RequireProof(v page.Visit, p ConfirmPage) (*page.Answer, error) {
	if err := v.ParseForm(); err != nil {
		return nil, fmt.Errorf("read form: %w", err)
	}
	if p.Grave {
		if unconfirmed, err := s.RequireSecondFactor(v, p.Back); unconfirmed != nil || err != nil {
			return unconfirmed, err
		}
	}
	if v.PostForm.Has("password") {
		fault, err := s.CheckProof(v)
		if err != nil || fault == "" {
			return nil, err
		}
		p.Fault = fault
	}
	if p.Fault != "" {
		p.Path, p.Fields = v.URL.Path, withoutProof(v)
		got, err := page.Refuse("confirm", confirmTitle, p)
		return &got, err
	}
	got, err := s.AskForProof(v, v.Path("/confirm"), p)
	return &got, err
}

func withoutProof(v page.Visit) url.Values {
	fields := maps.Clone(v.PostForm)
	for _, name := range proofs {
		fields.Del(name)
	}
	return fields
}

// AskForProof leads to the page at a path, which reads p and the form of the visitor with ReadConfirmation.
func (s *Server) AskForProof(v page.Visit, at string, p ConfirmPage) (page.Answer, error) {
	p.Path, p.Fields = v.URL.Path, withoutProof(v)
	text, err := json.Marshal(p)
	if err != nil {
		return page.Answer{}, fmt.Errorf("confirmation: %w", err)
	}
	seal, err := s.seal(v, text)
	return page.GoToAfter(err, at+"?"+url.Values{"form": {string(text)}, "seal": {seal}}.Encode(), "")
}

// ReadConfirmation returns the page that AskForProof was called with in this browser.
func (s *Server) ReadConfirmation(v page.Visit) (p ConfirmPage, ok bool, err error) {
	text := []byte(v.URL.Query().Get("form"))
	seal, err := s.seal(v, text)
	if err != nil || !hmac.Equal([]byte(seal), []byte(v.URL.Query().Get("seal"))) {
		return p, false, err
	}
	ok = json.Unmarshal(text, &p) == nil
	return p, ok, nil
}

// seal proves that this service wrote a text for this browser. The key is the hash of the visitor's password, which no
// browser has: neither a link from someone else nor a thief of the cookie can write the page and fill in its form.
func (s *Server) seal(v page.Visit, text []byte) (string, error) {
	hash, err := s.People.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write([]byte("a form to be confirmed "))
	mac.Write(v.Browser)
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// showConfirm serves GET …/confirm.
func (s *Server) showConfirm(v page.Visit) (page.Answer, error) {
	p, ok, err := s.ReadConfirmation(v)
	if err != nil {
		return page.Answer{}, err
	}
	if !ok {
		return page.GoTo("/", "")
	}
	return page.Show("confirm", confirmTitle, p)
}
