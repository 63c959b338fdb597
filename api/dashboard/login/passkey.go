package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/merchant"
)

// errPasskey refuses the answer of a passkey. The text that it wraps is for the audit log.
var errPasskey = errors.New("the passkey is not right")

// passkeyFault checks the answer of one of the member's passkeys. It returns "" when it is right, else a fault. The
// audit log notes a wrong one.
func (s *Server) passkeyFault(r *http.Request, m merchant.Member, c ceremony) (fault string, err error) {
	answer, session, err := s.readAssertion(r, c)
	if err == nil {
		err = s.usePasskey(r, m, answer, session)
	}
	return s.refusedPasskey(r, m, err)
}

// refusedPasskey notes in the audit log why a passkey was refused, and returns what the person is told. err is nil,
// an error that wraps errPasskey, or another one, which it returns.
func (s *Server) refusedPasskey(r *http.Request, m merchant.Member, err error) (string, error) {
	if !errors.Is(err, errPasskey) {
		return "", err
	}
	return "The passkey was not accepted. Try again.", s.AuditLog.Audit(
		r.Context(), page.Entry(r, m, "member.passkey_refused", "at "+r.URL.Path+": "+err.Error()))
}

// readAssertion reads the answer of a passkey and uses up the challenge that it answers.
func (s *Server) readAssertion(
	r *http.Request, c ceremony,
) (*protocol.ParsedCredentialAssertionData, webauthn.SessionData, error) {
	if s.Passkeys == nil {
		return nil, webauthn.SessionData{}, fmt.Errorf("%w: there are none at this address", errPasskey)
	}
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(r.PostFormValue("passkey")))
	if err != nil {
		return nil, webauthn.SessionData{}, fmt.Errorf("%w: not understood", errPasskey)
	}
	session, err := s.useUpChallenge(r, c, answer.Response.CollectedClientData.Challenge)
	if failure.KindOf(err) == failure.NotFound {
		err = fmt.Errorf("%w: the challenge was answered, has run out or is of another browser", errPasskey)
	}
	return answer, session, err
}

// usePasskey checks the answer of a member's passkey and stores how often the passkey was used. It returns
// errPasskey.
func (s *Server) usePasskey(
	r *http.Request, m merchant.Member, answer *protocol.ParsedCredentialAssertionData, session webauthn.SessionData,
) error {
	return s.People.UsePasskey(r.Context(), m.MerchantID, m.ID,
		func(all []merchant.Passkey) (used merchant.Passkey, err error) {
			at := slices.IndexFunc(all, func(p merchant.Passkey) bool { return hasCredentialID(p, answer.RawID) })
			if at < 0 {
				return used, fmt.Errorf("%w: it is not a passkey of this person", errPasskey)
			}
			used = all[at]
			key, err := s.verifyAssertion(r, m, all, answer, session)
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

// verifyAssertion checks the signature of an answer and all that was signed: challenge, origin, person.
func (s *Server) verifyAssertion(
	r *http.Request, m merchant.Member, all []merchant.Passkey, answer *protocol.ParsedCredentialAssertionData,
	session webauthn.SessionData,
) (key *webauthn.Credential, err error) {
	holder, err := s.keyHolder(r, m, all)
	if err != nil {
		return nil, err
	}
	if len(session.UserID) > 0 {
		key, err = s.Passkeys.ValidateLogin(holder, session, answer)
	} else {
		anybody := func(_, _ []byte) (webauthn.User, error) { return holder, nil }
		_, key, err = s.Passkeys.ValidatePasskeyLogin(anybody, session, answer)
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
