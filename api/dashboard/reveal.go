package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// made creates something with a secret and leads to the page that shows the secret once. A form
// creates only one thing, even when the browser sends it twice. A reload or a second click must not
// end a secret that is in use. subject is the id of the created object. page returns the page's
// address for that id.
func (s *server) made(
	v visit, subject, secret string, page func(subject string) string, create func() error,
) (answer, error) {
	once := v.PostFormValue("once")
	if once == "" {
		once, _ = checkout.NewToken()
	}

	form := sha256.Sum256([]byte(v.URL.Path + " " + once))
	r := v.reveal(subject)
	r.Form, r.Secret = hex.EncodeToString(form[:]), secret

	subject, first, err := s.Store.KeepReveal(v.Context(), r)
	if err != nil {
		return answer{}, err
	}
	if !first {
		return goTo(page(subject), "")
	}

	if err := create(); err != nil {
		if pg.Unavailable(err) { // the object may exist: the form, sent again, then shows the secret
			return answer{}, err
		}
		return answer{}, errors.Join(err, s.Store.DropReveal(v.Context(), r))
	}
	return goTo(page(subject), "")
}

// reveal names the secret of subject for the visitor's browser.
func (v visit) reveal(subject string) storage.Reveal {
	return storage.Reveal{Owner: v.Owner(), Browser: v.browser, Subject: subject}
}

var secretGone = notice("secret_gone", "A secret is shown only once. If this one was not kept, make another.")

// gone leads to another page when the secret cannot be shown any more.
func gone(err error, path string) (answer, error) {
	if errors.Is(err, checkout.ErrNotFound) {
		return goTo(path, secretGone)
	}
	return answer{}, err
}

// showKeySecret serves GET /{mode}/keys/{id}/secret.
func (s *server) showKeySecret(v visit) (answer, error) {
	k, err := s.Store.APIKey(v.Context(), v.ID())
	if err == nil && (k.MerchantID != v.MerchantID() || k.Mode != v.Mode) {
		err = checkout.ErrNotFound
	}
	if err != nil {
		return answer{}, err
	}
	secret, err := s.Store.TakeReveal(v.Context(), v.reveal(k.ID))
	if err != nil {
		return gone(err, v.Path("/keys"))
	}
	return s.keysPage(v, keysPage{Secret: secret, New: k, Form: keyForm{Access: checkout.ScopeFull}})
}

// showWebhookSecret serves GET /{mode}/webhooks/{id}/secret. It shows the secret only while it is
// the registration's current one.
func (s *server) showWebhookSecret(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	if e.Secret, err = s.Store.TakeReveal(v.Context(), v.reveal(e.ID)); err != nil {
		return gone(err, v.Path("/webhooks/"+e.ID))
	}
	signing, err := s.Store.SigningKeys(v.Context(), v.Owner(), "")
	if err != nil {
		return answer{}, err
	}
	for _, k := range signing {
		if k.EndpointID == e.ID && bytes.Equal(k.Current, webhook.SecretDigest(e.Secret)) {
			return show("webhook_secret", "The signing secret", secretShown{e, k.Previous == nil})
		}
	}
	return goTo(v.Path("/webhooks/"+e.ID), secretGone)
}

// showInvitationLink serves GET /{mode}/members/{id}/link.
func (s *server) showInvitationLink(v visit) (answer, error) {
	m, err := s.Store.Member(v.Context(), v.MerchantID(), v.ID())
	if err != nil {
		return answer{}, err
	}
	token, err := s.Store.TakeReveal(v.Context(), v.reveal(m.ID))
	if err != nil {
		return gone(err, v.Path("/members"))
	}
	if _, _, err := s.Store.Invitation(v.Context(), checkout.HashToken(token)); err != nil {
		return gone(err, v.Path("/members"))
	}
	return s.membersPage(v, membersPage{Link: checkout.InvitationURL(s.URL, token), For: m.Email})
}
