package login

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/workflows/merchant"
)

// NewPasskeys returns what checks passkeys for a dashboard at u. It returns nil when browsers offer no passkeys
// for that address, which is so for an IP address. Every use of a passkey verifies the person, by a finger, a
// face or a PIN.
func NewPasskeys(u *url.URL) *webauthn.WebAuthn {
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

// keyHolder is a member in the form that the library needs.
type keyHolder struct {
	member merchant.Member
	name   string // of the merchant
	handle []byte
	keys   []webauthn.Credential
}

func (h keyHolder) WebAuthnID() []byte                         { return h.handle }
func (h keyHolder) WebAuthnName() string                       { return h.member.Email }
func (h keyHolder) WebAuthnDisplayName() string                { return h.member.Email + ", " + h.name }
func (h keyHolder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

// keyHolder returns the member with the passkeys all.
func (s *Server) keyHolder(r *http.Request, m merchant.Member, all []merchant.Passkey) (h keyHolder, err error) {
	h.member = m
	if h.handle, err = s.People.PasskeyHandle(r.Context(), m.MerchantID, m.ID); err != nil {
		return h, err
	}
	h.keys, err = credentials(all)
	return h, err
}

func credentials(all []merchant.Passkey) ([]webauthn.Credential, error) {
	keys := make([]webauthn.Credential, len(all))
	for i, p := range all {
		if err := json.Unmarshal(p.Credential, &keys[i]); err != nil {
			return nil, fmt.Errorf("passkey %s: %w", p.ID, err)
		}
	}
	return keys, nil
}

// hasCredentialID reports whether a passkey calls itself id.
func hasCredentialID(p merchant.Passkey, id []byte) bool {
	keys, err := credentials([]merchant.Passkey{p})
	return err == nil && string(keys[0].ID) == string(id)
}
