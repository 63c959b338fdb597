package page

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// CreateAndReveal creates something with a secret and leads to the page that reveals the secret. A form creates only
// one thing, even when the browser sends it twice. A reload or a second click must not end a secret that is in use.
// subject is the id of the created object. page returns the page's address for that id.
func CreateAndReveal(
	secrets *people.Secrets, v Visit, subject, secret string, page func(subject string) string, create func() error,
) (Answer, error) {
	once := v.PostFormValue("once")
	if once == "" {
		once, _ = merchant.NewToken()
	}

	form := sha256.Sum256([]byte(v.URL.Path + " " + once))
	r := v.Reveal(subject)
	r.Form, r.Secret = hex.EncodeToString(form[:]), secret

	subject, first, err := secrets.KeepReveal(v.Context(), r)
	if err != nil {
		return Answer{}, err
	}
	if !first {
		return GoTo(page(subject), "")
	}

	if err := create(); err != nil {
		if pg.Unavailable(err) { // the object may exist: the form, sent again, then shows the secret
			return Answer{}, err
		}
		return Answer{}, errors.Join(err, secrets.DropReveal(v.Context(), r))
	}
	return GoTo(page(subject), "")
}

// RevealGone is the notice for a secret that cannot be revealed any more.
var RevealGone = Notice("secret_gone", "A secret is shown only once. If you did not store it, create another.")

// ExplainMissingReveal leads to another page when the secret cannot be revealed any more.
func ExplainMissingReveal(err error, path string) (Answer, error) {
	if errors.Is(err, checkout.ErrNotFound) {
		return GoTo(path, RevealGone)
	}
	return Answer{}, err
}
