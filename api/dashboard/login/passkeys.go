package login

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// newPasskeyPage lets the browser make a passkey.
type newPasskeyPage struct {
	Options string // JSON, for the browser
	Fault   string
}

const addingTitle = "Add a passkey"

// startPasskey serves POST …/account/passkeys/new. It needs the password, and the second factor of who has one. Only
// then there is a challenge for a new passkey.
func (s *Server) startPasskey(v page.Visit) (page.Answer, error) {
	unconfirmed, err := s.RequireProof(v, ConfirmPage{
		Text: "A passkey signs you in without a password and replaces an app code.", Button: "Continue",
		Back: v.Path("/account"),
	})
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	all, err := s.People.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return page.Answer{}, err
	}
	holder, err := s.keyHolder(v.Request, v.Member, all)
	if err != nil {
		return page.Answer{}, err
	}
	holder.name = v.Merchant
	options, session, err := s.Passkeys.BeginRegistration(holder,
		webauthn.WithExclusions(webauthn.Credentials(holder.keys).CredentialDescriptors()))
	if err != nil {
		return page.Answer{}, fmt.Errorf("new passkey: %w", err)
	}
	if err := s.keepChallenge(v.Request, ceremony{toRegister, v.Browser}, session); err != nil {
		return page.Answer{}, err
	}
	text, err := json.Marshal(options.Response)
	if err != nil {
		return page.Answer{}, fmt.Errorf("new passkey: %w", err)
	}
	return page.Show("passkey", addingTitle, newPasskeyPage{Options: string(text)})
}

var (
	passkeyAdded   = page.Notice("passkey_added", "The passkey was added. You can sign in with it.")
	passkeyRenamed = page.Notice("passkey_renamed", "The passkey has its new name.")
	passkeyRemoved = page.Notice("passkey_removed", "The passkey was removed. Remove it on your device too.")
)

// addPasskey serves POST …/account/passkeys.
func (s *Server) addPasskey(v page.Visit) (page.Answer, error) {
	key, err := s.readNewPasskey(v)
	if errors.Is(err, errPasskey) {
		return page.Refuse("passkey", addingTitle, newPasskeyPage{Fault: "The passkey was not accepted. Start again."})
	}
	if err != nil {
		return page.Answer{}, err
	}
	name, ok := passkeyName(v)
	if !ok {
		name = "Passkey"
	}
	codes, hashes := newRecoveryCodes()
	stored := people.NewPasskey{
		Passkey:    merchant.Passkey{ID: checkout.NewID(checkout.PrefixPasskey), Name: name},
		MerchantID: v.MerchantID(), MemberID: v.Member.ID, CredentialID: key.ID, Recovery: hashes, Keep: v.Browser,
	}
	if stored.Credential, err = json.Marshal(key); err != nil {
		return page.Answer{}, fmt.Errorf("new passkey: %w", err)
	}
	kept := v.Reveal(setOfCodes(v, hashes))
	kept.Form, kept.Secret = stored.ID, strings.Join(codes, "\n")
	if _, _, err := s.Secrets.KeepReveal(v.Context(), kept); err != nil {
		return page.Answer{}, err
	}
	first, err := s.People.AddPasskey(v.Context(), stored,
		v.AuditBoth("member.passkey_added", v.Member.ID, "passkey “"+name+"”, "+stored.ID))
	if err == nil && first {
		return page.GoTo(pageOfCodes(v)(kept.Subject), passkeyAdded)
	}
	if dropped := s.Secrets.DropReveal(v.Context(), kept); dropped != nil {
		return page.Answer{}, errors.Join(err, dropped)
	}
	if errors.Is(err, checkout.ErrConflict) {
		return page.Refuse("passkey", addingTitle, newPasskeyPage{Fault: "This passkey is already registered."})
	}
	return page.GoToAfter(err, v.Path("/account"), passkeyAdded)
}

// readNewPasskey checks what the browser says about a new passkey. It returns errPasskey, which the audit log has then.
func (s *Server) readNewPasskey(v page.Visit) (*webauthn.Credential, error) {
	created, err := protocol.ParseCredentialCreationResponseBytes([]byte(v.PostFormValue("passkey")))
	if err != nil {
		return nil, fmt.Errorf("%w: not understood", errPasskey)
	}
	challenge := created.Response.CollectedClientData.Challenge
	session, err := s.useUpChallenge(v.Request, ceremony{toRegister, v.Browser}, challenge)
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
	key, err := s.Passkeys.CreateCredential(holder, session, created)
	if err != nil {
		_, err = s.refusedPasskey(v.Request, v.Member, fmt.Errorf("%w: %s", errPasskey, kindOfFault(err)))
		return nil, errors.Join(errPasskey, err)
	}
	return key, nil
}

const maxPasskeyName = 60 // characters

// passkeyName returns the typed name of a passkey.
func passkeyName(v page.Visit) (name string, ok bool) {
	name = strings.TrimSpace(v.PostFormValue("name"))
	return name, name != "" && utf8.RuneCountInString(name) <= maxPasskeyName &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// passkey returns the visitor's passkey with the id of the path. It returns checkout.ErrNotFound.
func (s *Server) passkey(v page.Visit) (merchant.Passkey, error) {
	all, err := s.People.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if at := slices.IndexFunc(all, func(p merchant.Passkey) bool { return p.ID == v.ID() }); at >= 0 {
		return all[at], nil
	}
	return merchant.Passkey{}, cmp.Or(err, checkout.ErrNotFound)
}

// renamePasskey serves POST …/account/passkeys/{id}.
func (s *Server) renamePasskey(v page.Visit) (page.Answer, error) {
	p, err := s.passkey(v)
	if err != nil {
		return page.Answer{}, err
	}
	name, ok := passkeyName(v)
	if !ok {
		return s.accountPage(v, fmt.Sprintf("The name of a passkey must have 1 to %d characters.", maxPasskeyName))
	}
	if name == p.Name {
		return page.GoTo(v.Path("/account"), page.NothingChanged)
	}
	err = s.People.RenamePasskey(v.Context(), v.MerchantID(), v.Member.ID, p.ID, name,
		v.AuditBoth("member.passkey_renamed", v.Member.ID, "passkey “"+p.Name+"” → “"+name+"”, "+p.ID))
	return page.GoToAfter(err, v.Path("/account"), passkeyRenamed)
}

// removePasskey serves POST …/account/passkeys/{id}/remove.
func (s *Server) removePasskey(v page.Visit) (page.Answer, error) {
	p, err := s.passkey(v)
	if err != nil {
		return page.Answer{}, err
	}
	text := "The passkey “" + p.Name + "” will no longer sign you in."
	if !v.Member.App && v.Member.Passkeys == 1 {
		text += " It is your last second factor: afterwards anyone who knows your password can sign in as you, " +
			"and your recovery codes stop working."
	}
	unconfirmed, err := s.RequireProof(v, ConfirmPage{Text: text, Button: "Remove it", Back: v.Path("/account")})
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	err = s.People.RemovePasskey(v.Context(), v.MerchantID(), v.Member.ID, p.ID,
		v.AuditBoth("member.passkey_removed", v.Member.ID, "passkey “"+p.Name+"”, "+p.ID))
	return page.GoToAfter(err, v.Path("/account"), passkeyRemoved)
}
