package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/api/action"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// newPasskeys returns what checks passkeys for a dashboard at u. It returns nil when browsers offer no passkeys
// for that address, which is so for an IP address. Every use of a passkey verifies the person, by a finger, a
// face or a PIN.
func newPasskeys(u *url.URL) *webauthn.WebAuthn {
	w, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "Checkout dashboard", RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil
	}
	return w
}

// keyHolder is a member as the library wants to see one.
type keyHolder struct {
	member checkout.Member
	name   string // of the merchant
	handle []byte
	keys   []webauthn.Credential
}

func (h keyHolder) WebAuthnID() []byte                         { return h.handle }
func (h keyHolder) WebAuthnName() string                       { return h.member.Email }
func (h keyHolder) WebAuthnDisplayName() string                { return h.member.Email + ", " + h.name }
func (h keyHolder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

// keyHolder returns the member with the passkeys all.
func (s *server) keyHolder(r *http.Request, m checkout.Member, all []checkout.Passkey) (h keyHolder, err error) {
	h.member = m
	if h.handle, err = s.Store.PasskeyHandle(r.Context(), m.MerchantID, m.ID); err != nil {
		return h, err
	}
	h.keys, err = credentials(all)
	return h, err
}

func credentials(all []checkout.Passkey) ([]webauthn.Credential, error) {
	keys := make([]webauthn.Credential, len(all))
	for i, p := range all {
		if err := json.Unmarshal(p.Credential, &keys[i]); err != nil {
			return nil, fmt.Errorf("passkey %s: %w", p.ID, err)
		}
	}
	return keys, nil
}

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

// challenge stores what a ceremony has to agree with.
func (s *server) challenge(r *http.Request, c ceremony, session *webauthn.SessionData) error {
	text, err := json.Marshal(session)
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	return s.Store.KeepChallenge(r.Context(), storage.Challenge{
		Text: session.Challenge, Browser: c.browser, Purpose: c.purpose, Session: text,
	})
}

// taken returns what the answer to a challenge has to agree with. The challenge is used up, whatever the answer
// is worth. It returns checkout.ErrNotFound for a challenge of another browser or purpose, one that was answered
// and one that has run out.
func (s *server) taken(r *http.Request, c ceremony, challenge string) (session webauthn.SessionData, err error) {
	text, err := s.Store.TakeChallenge(r.Context(), storage.Challenge{
		Text: challenge, Browser: c.browser, Purpose: c.purpose,
	})
	if err == nil {
		err = json.Unmarshal(text, &session)
	}
	return session, err
}

// challengePasskey serves POST /passkey/challenge. The answer is what the browser's passkey has to sign, as JSON.
// The field "for" is the purpose.
func (s *server) challengePasskey(w http.ResponseWriter, r *http.Request) error {
	if s.passkeys == nil {
		return checkout.ErrNotFound
	}
	var options *protocol.CredentialAssertion
	var err error
	switch r.PostFormValue("for") {
	case toSignIn:
		options, err = s.challengeAnybody(w, r)
	case toSecondStep:
		var m checkout.Member
		if m, _, err = s.half(r); err == nil {
			options, err = s.challengeMember(r, m, s.secondStep(r))
		}
	case toStepUp:
		var v visit
		if v, err = s.visitor(r); err == nil {
			options, err = s.challengeMember(r, v.Member, ceremony{toStepUp, v.browser})
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

// secondStep is the ceremony of a browser that gave the right password.
func (s *server) secondStep(r *http.Request) ceremony {
	return s.ceremonyOf(r, toSecondStep, halfCookie)
}

// ceremonyOf binds a ceremony to a cookie of the browser.
func (s *server) ceremonyOf(r *http.Request, purpose, name string) ceremony {
	c := ceremony{purpose: purpose}
	if cookie, err := r.Cookie(s.cookieName(name)); err == nil {
		c.browser = checkout.HashToken(cookie.Value)
	}
	return c
}

// challengeAnybody makes a challenge for whichever passkey the browser has.
func (s *server) challengeAnybody(w http.ResponseWriter, r *http.Request) (*protocol.CredentialAssertion, error) {
	verified := webauthn.WithUserVerification(protocol.VerificationRequired)
	options, session, err := s.passkeys.BeginDiscoverableLogin(verified)
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	token, hash := checkout.NewToken()
	s.setCookie(w, passkeyCookie, token, 0)
	return options, s.challenge(r, ceremony{toSignIn, hash}, session)
}

func (s *server) challengeMember(
	r *http.Request, m checkout.Member, c ceremony,
) (*protocol.CredentialAssertion, error) {
	all, err := s.Store.Passkeys(r.Context(), m.MerchantID, m.ID)
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
	options, session, err := s.passkeys.BeginLogin(holder, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	return options, s.challenge(r, c, session)
}

// errPasskey refuses the answer of a passkey. The text that it wraps is for the audit log.
var errPasskey = errors.New("the passkey is not right")

// passkeyFault checks the answer of one of the member's passkeys. It returns "" when it is right, else a fault. The
// audit log notes a wrong one.
func (s *server) passkeyFault(r *http.Request, m checkout.Member, c ceremony) (fault string, err error) {
	answer, session, err := s.answered(r, c)
	if err == nil {
		err = s.usePasskey(r, m, answer, session)
	}
	return s.refusedPasskey(r, m, err)
}

// refusedPasskey notes in the audit log why a passkey was refused, and returns what the person is told. err is nil,
// an error that wraps errPasskey, or another one, which it returns.
func (s *server) refusedPasskey(r *http.Request, m checkout.Member, err error) (string, error) {
	if !errors.Is(err, errPasskey) {
		return "", err
	}
	return "That passkey was not accepted. Try again.", s.Store.Audit(r.Context(), action.Entry(
		r, m.MerchantID, m.Email, "member.passkey_refused", m.ID, "at "+r.URL.Path+": "+err.Error()))
}

// answered reads the answer of a passkey and uses up the challenge that it answers.
func (s *server) answered(
	r *http.Request, c ceremony,
) (*protocol.ParsedCredentialAssertionData, webauthn.SessionData, error) {
	if s.passkeys == nil {
		return nil, webauthn.SessionData{}, fmt.Errorf("%w: there are none at this address", errPasskey)
	}
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(r.PostFormValue("passkey")))
	if err != nil {
		return nil, webauthn.SessionData{}, fmt.Errorf("%w: not understood", errPasskey)
	}
	session, err := s.taken(r, c, answer.Response.CollectedClientData.Challenge)
	if failure.KindOf(err) == failure.NotFound {
		err = fmt.Errorf("%w: the challenge was answered, has run out or is of another browser", errPasskey)
	}
	return answer, session, err
}

// usePasskey checks the answer of a member's passkey and stores how often the passkey was used. It returns
// errPasskey.
func (s *server) usePasskey(
	r *http.Request, m checkout.Member, answer *protocol.ParsedCredentialAssertionData, session webauthn.SessionData,
) error {
	return s.Store.UsePasskey(r.Context(), m.MerchantID, m.ID,
		func(all []checkout.Passkey) (used checkout.Passkey, err error) {
			at := slices.IndexFunc(all, func(p checkout.Passkey) bool { return holds(p, answer.RawID) })
			if at < 0 {
				return used, fmt.Errorf("%w: it is not a passkey of this person", errPasskey)
			}
			used = all[at]
			key, err := s.verified(r, m, all, answer, session)
			if err != nil {
				return used, err
			}
			if key.Authenticator.CloneWarning {
				return used, fmt.Errorf("%w: its count of uses goes back, so “%s” may have been copied", errPasskey, used.Name)
			}
			used.Credential, err = json.Marshal(key)
			return used, err
		})
}

// holds reports whether a passkey calls itself id.
func holds(p checkout.Passkey, id []byte) bool {
	keys, err := credentials([]checkout.Passkey{p})
	return err == nil && string(keys[0].ID) == string(id)
}

// verified checks the signature of an answer and all that was signed: challenge, origin, person.
func (s *server) verified(
	r *http.Request, m checkout.Member, all []checkout.Passkey, answer *protocol.ParsedCredentialAssertionData,
	session webauthn.SessionData,
) (key *webauthn.Credential, err error) {
	holder, err := s.keyHolder(r, m, all)
	if err != nil {
		return nil, err
	}
	if len(session.UserID) > 0 {
		key, err = s.passkeys.ValidateLogin(holder, session, answer)
	} else {
		anybody := func(_, _ []byte) (webauthn.User, error) { return holder, nil }
		_, key, err = s.passkeys.ValidatePasskeyLogin(anybody, session, answer)
	}
	if err != nil {
		// The library's details quote the answer, which comes from outside. Its kind is enough.
		return nil, fmt.Errorf("%w: %s", errPasskey, kindOfFault(err))
	}
	return key, nil
}

// kindOfFault returns the library's word for what is wrong with an answer.
func kindOfFault(err error) string {
	if fault, ok := errors.AsType[*protocol.Error](err); ok {
		return fault.Type
	}
	return "unknown passkey"
}

// signInWithPasskey serves POST /signin/passkey: signing in without a password. The passkey says who signs in. It is
// two factors: the device, and the finger, the face or the PIN that it asks for.
func (s *server) signInWithPasskey(w http.ResponseWriter, r *http.Request) error {
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), "a passkey"); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}
	c := s.ceremonyOf(r, toSignIn, passkeyCookie)
	s.setCookie(w, passkeyCookie, "", -1)
	refuse := func() {
		s.renderOpen(w, r, http.StatusUnprocessableEntity, "signin", "Sign in",
			signInForm{Next: r.PostFormValue("next"), Mail: s.Mail, NoPasskey: true})
	}
	answer, session, err := s.answered(r, c)
	if errors.Is(err, errPasskey) {
		refuse()
		return nil
	}
	if err != nil {
		return err
	}
	m, hash, err := s.Store.MemberByPasskeyHandle(r.Context(), answer.Response.UserHandle)
	if failure.KindOf(err) == failure.NotFound {
		refuse()
		return nil
	}
	if err != nil {
		return err
	}
	fault, err := s.refusedPasskey(r, m, s.usePasskey(r, m, answer, session))
	if err != nil {
		return err
	}
	if fault != "" {
		refuse()
		return nil
	}
	return s.startSession(w, r, m, hash, safeNext(r.PostFormValue("next")), "with a passkey, without the password")
}

// newPasskeyPage lets the browser make a passkey.
type newPasskeyPage struct {
	Options string // JSON, for the browser
	Fault   string
}

const addingTitle = "Add a passkey"

// startPasskey serves POST /account/passkeys/new. It needs the password, and the second factor of who has one. Only
// then there is a challenge for a new passkey.
func (s *server) startPasskey(v visit) (answer, error) {
	if s.passkeys == nil {
		return answer{}, checkout.ErrNotFound
	}
	page, err := s.unconfirmed(v, confirmPage{
		Text: "A passkey signs you in alone, and replaces a code of an app.", Button: "Continue", Back: "/account",
	})
	if page != nil || err != nil {
		return orNone(page), err
	}
	all, err := s.Store.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return answer{}, err
	}
	holder, err := s.keyHolder(v.Request, v.Member, all)
	if err != nil {
		return answer{}, err
	}
	holder.name = v.Merchant
	options, session, err := s.passkeys.BeginRegistration(holder,
		webauthn.WithExclusions(webauthn.Credentials(holder.keys).CredentialDescriptors()))
	if err != nil {
		return answer{}, fmt.Errorf("new passkey: %w", err)
	}
	if err := s.challenge(v.Request, ceremony{toRegister, v.browser}, session); err != nil {
		return answer{}, err
	}
	text, err := json.Marshal(options.Response)
	if err != nil {
		return answer{}, fmt.Errorf("new passkey: %w", err)
	}
	return show("passkey", addingTitle, newPasskeyPage{Options: string(text)})
}

var (
	passkeyAdded   = notice("passkey_added", "The passkey was added. You can sign in with it.")
	passkeyRenamed = notice("passkey_renamed", "The passkey has its new name.")
	passkeyRemoved = notice("passkey_removed", "The passkey was removed. Remove it on your device too.")
)

// addPasskey serves POST /account/passkeys.
func (s *server) addPasskey(v visit) (answer, error) {
	if s.passkeys == nil {
		return answer{}, checkout.ErrNotFound
	}
	key, err := s.created(v)
	if errors.Is(err, errPasskey) {
		return refuse("passkey", addingTitle, newPasskeyPage{Fault: "That passkey was not accepted. Begin again."})
	}
	if err != nil {
		return answer{}, err
	}
	name, ok := passkeyName(v)
	if !ok {
		name = "Passkey"
	}
	codes, hashes := newRecoveryCodes()
	stored := storage.NewPasskey{
		Passkey:    checkout.Passkey{ID: checkout.NewID(checkout.PrefixPasskey), Name: name},
		MerchantID: v.MerchantID(), MemberID: v.Member.ID, CredentialID: key.ID, Recovery: hashes, Keep: v.browser,
	}
	if stored.Credential, err = json.Marshal(key); err != nil {
		return answer{}, fmt.Errorf("new passkey: %w", err)
	}
	kept := v.reveal(setOfCodes(v, hashes))
	kept.Form, kept.Secret = stored.ID, strings.Join(codes, "\n")
	if _, _, err := s.Store.KeepReveal(v.Context(), kept); err != nil {
		return answer{}, err
	}
	first, err := s.Store.AddPasskey(v.Context(), stored,
		v.auditBoth("member.passkey_added", v.Member.ID, "passkey “"+name+"”, "+stored.ID))
	if err == nil && first {
		return goTo(pageOfCodes(kept.Subject), passkeyAdded)
	}
	if dropped := s.Store.DropReveal(v.Context(), kept); dropped != nil {
		return answer{}, errors.Join(err, dropped)
	}
	if errors.Is(err, checkout.ErrConflict) {
		return refuse("passkey", addingTitle, newPasskeyPage{Fault: "That passkey is known already."})
	}
	if err != nil {
		return answer{}, err
	}
	return goTo("/account", passkeyAdded)
}

// created checks what the browser says about a new passkey. It returns errPasskey, which the audit log has then.
func (s *server) created(v visit) (*webauthn.Credential, error) {
	said, err := protocol.ParseCredentialCreationResponseBytes([]byte(v.PostFormValue("passkey")))
	if err != nil {
		return nil, fmt.Errorf("%w: not understood", errPasskey)
	}
	session, err := s.taken(v.Request, ceremony{toRegister, v.browser}, said.Response.CollectedClientData.Challenge)
	if failure.KindOf(err) == failure.NotFound {
		return nil, fmt.Errorf("%w: the challenge was answered or has run out", errPasskey)
	}
	if err != nil {
		return nil, err
	}
	holder, err := s.keyHolder(v.Request, v.Member, nil)
	if err != nil {
		return nil, err
	}
	key, err := s.passkeys.CreateCredential(holder, session, said)
	if err != nil {
		_, err = s.refusedPasskey(v.Request, v.Member, fmt.Errorf("%w: %s", errPasskey, kindOfFault(err)))
		return nil, errors.Join(errPasskey, err)
	}
	return key, nil
}

const maxPasskeyName = 60 // characters

// passkeyName returns the typed name of a passkey.
func passkeyName(v visit) (name string, ok bool) {
	name = strings.TrimSpace(v.PostFormValue("name"))
	return name, name != "" && utf8.RuneCountInString(name) <= maxPasskeyName &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// passkey returns the visitor's passkey with the id of the path. It returns checkout.ErrNotFound.
func (s *server) passkey(v visit) (checkout.Passkey, error) {
	all, err := s.Store.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return checkout.Passkey{}, err
	}
	for _, p := range all {
		if p.ID == v.ID() {
			return p, nil
		}
	}
	return checkout.Passkey{}, checkout.ErrNotFound
}

// renamePasskey serves POST /account/passkeys/{id}.
func (s *server) renamePasskey(v visit) (answer, error) {
	p, err := s.passkey(v)
	if err != nil {
		return answer{}, err
	}
	name, ok := passkeyName(v)
	if !ok {
		return s.accountPage(v, fmt.Sprintf("The name of a passkey must have 1 to %d characters.", maxPasskeyName))
	}
	if name == p.Name {
		return goTo("/account", nothingChanged)
	}
	err = s.Store.RenamePasskey(v.Context(), v.MerchantID(), v.Member.ID, p.ID, name,
		v.auditBoth("member.passkey_renamed", v.Member.ID, "passkey “"+p.Name+"” → “"+name+"”, "+p.ID))
	if err != nil {
		return answer{}, err
	}
	return goTo("/account", passkeyRenamed)
}

// removePasskey serves POST /account/passkeys/{id}/remove.
func (s *server) removePasskey(v visit) (answer, error) {
	p, err := s.passkey(v)
	if err != nil {
		return answer{}, err
	}
	text := "The passkey “" + p.Name + "” will not sign you in any more."
	if !v.Member.App && v.Member.Passkeys == 1 {
		text += " It is your last second factor: afterwards everybody who knows your password can sign in as you, " +
			"and your recovery codes end."
	}
	page, err := s.unconfirmed(v, confirmPage{Text: text, Button: "Remove it", Back: "/account"})
	if page != nil || err != nil {
		return orNone(page), err
	}
	err = s.Store.RemovePasskey(v.Context(), v.MerchantID(), v.Member.ID, p.ID,
		v.auditBoth("member.passkey_removed", v.Member.ID, "passkey “"+p.Name+"”, "+p.ID))
	if err != nil {
		return answer{}, err
	}
	return goTo("/account", passkeyRemoved)
}
