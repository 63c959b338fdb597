package login

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// ceremony is what a challenge is bound to.
type ceremony struct {
	purpose string // see below
	browser []byte // SHA-256 of the cookie of the browser
}

// Purposes of challenges. An answer for one is no answer for another.
const (
	toRegister   = "register"
	toStepUp     = "step_up"     // a dangerous action of a person who is signed in
	toSecondStep = "second_step" // after the password
	toSignIn     = "sign_in"     // without a password
)

// passkeyCookie binds the challenge of a browser in which nobody has signed in.
const passkeyCookie = "passkey"

// ceremonyOf binds a ceremony to a cookie of the browser.
func (s *Server) ceremonyOf(r *http.Request, purpose, name string) ceremony {
	c := ceremony{purpose: purpose}
	if token := s.Renderer.Cookie(r, name); token != "" {
		c.browser = merchant.HashToken(token)
	}
	return c
}

// secondStep is the ceremony of a browser that gave the right password.
func (s *Server) secondStep(r *http.Request) ceremony {
	return s.ceremonyOf(r, toSecondStep, halfCookie)
}

// keepChallenge stores what a ceremony has to agree with.
func (s *Server) keepChallenge(r *http.Request, c ceremony, session *webauthn.SessionData) error {
	text, err := json.Marshal(session)
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	return s.People.KeepChallenge(r.Context(), people.Challenge{
		Text: session.Challenge, Browser: c.browser, Purpose: c.purpose, Session: text,
	})
}

// useUpChallenge returns what the answer to a challenge has to agree with. The challenge is used up, whatever the
// answer is worth. It returns checkout.ErrNotFound when the challenge belongs to another browser or purpose, was
// answered or has run out.
func (s *Server) useUpChallenge(
	r *http.Request, c ceremony, challenge string,
) (session webauthn.SessionData, err error) {
	text, err := s.People.TakeChallenge(r.Context(), people.Challenge{
		Text: challenge, Browser: c.browser, Purpose: c.purpose,
	})
	if err == nil {
		err = json.Unmarshal(text, &session)
	}
	return session, err
}

// challengePasskey serves POST /passkey/challenge. The answer is what the browser's passkey has to sign, as JSON.
// The field "for" is the purpose.
func (s *Server) challengePasskey(w http.ResponseWriter, r *http.Request) error {
	var options *protocol.CredentialAssertion
	var err error
	switch r.PostFormValue("for") {
	case toSignIn:
		options, err = s.challengeAnybody(w, r)
	case toSecondStep:
		var m merchant.Member
		if m, _, err = s.halfSignedIn(r); err == nil {
			options, err = s.challengeMember(r, m, s.secondStep(r))
		}
	case toStepUp:
		var v page.Visit
		if v, err = s.Visitor(r); err == nil {
			options, err = s.challengeMember(r, v.Member, ceremony{toStepUp, v.Browser})
		}
	default:
		err = checkout.ErrNotFound
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(options.Response); err != nil {
		return fmt.Errorf("write challenge: %w", err)
	}
	return nil
}

// challengeAnybody makes a challenge for whichever passkey the browser has.
func (s *Server) challengeAnybody(w http.ResponseWriter, r *http.Request) (*protocol.CredentialAssertion, error) {
	verified := webauthn.WithUserVerification(protocol.VerificationRequired)
	options, session, err := s.Passkeys.BeginDiscoverableLogin(verified)
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	token, hash := merchant.NewToken()
	s.Renderer.SetCookie(w, passkeyCookie, token, 0)
	return options, s.keepChallenge(r, ceremony{toSignIn, hash}, session)
}

func (s *Server) challengeMember(
	r *http.Request, m merchant.Member, c ceremony,
) (*protocol.CredentialAssertion, error) {
	all, err := s.People.Passkeys(r.Context(), m.MerchantID, m.ID)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, checkout.ErrNotFound
	}
	holder, err := s.keyHolder(r, m, all)
	if err != nil {
		return nil, err
	}
	options, session, err := s.Passkeys.BeginLogin(holder, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	return options, s.keepChallenge(r, c, session)
}
