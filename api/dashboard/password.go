package dashboard

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/checkout"
)

// passwordParams are OWASP's for argon2id. A hash says which it was made with,
// so they can grow.
var passwordParams = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

var hashers = max(1, runtime.GOMAXPROCS(0)/2)

// hashing bounds what passwords take of this process; a second's work may wait.
var hashing = limit.NewGate(hashers, 8*hashers)

// Limits of a password. The longest is for the sake of the hashing only.
const (
	minPassword = 12
	maxPassword = 256
)

// passwordFault says what is wrong with a new password, "" for nothing.
func passwordFault(password, again string) string {
	switch n := utf8.RuneCountInString(password); {
	case n < minPassword:
		return fmt.Sprintf("The password must have at least %d characters.", minPassword)
	case n > maxPassword:
		return fmt.Sprintf("The password must have at most %d characters.", maxPassword)
	case password != again:
		return "The passwords are not the same."
	}
	return ""
}

func hashPassword(ctx context.Context, password string) (string, error) {
	var (
		hash  string
		fault error
	)
	if err := hashing.Do(ctx, func() { hash, fault = argon2id.CreateHash(password, passwordParams) }); err != nil {
		return "", err
	}
	if fault != nil {
		return "", fmt.Errorf("hash password: %w", fault)
	}
	return hash, nil
}

// nobodysHash is compared with when there is no account, which takes as long.
var nobodysHash = func() string {
	token, _ := checkout.NewToken()
	hash, err := argon2id.CreateHash(token, passwordParams)
	if err != nil {
		panic(err) // the parameters are constants
	}
	return hash
}()

// samePassword compares a password with a hash, "" for that of nobody. It returns
// limit.ErrBusy.
func samePassword(ctx context.Context, password, hash string) (bool, error) {
	known := hash != ""
	if !known {
		hash = nobodysHash
	}
	if utf8.RuneCountInString(password) > maxPassword {
		password, known = "", false
	}
	var (
		same  bool
		fault error
	)
	err := hashing.Do(ctx, func() { same, fault = argon2id.ComparePasswordAndHash(password, hash) })
	return same && fault == nil && known, err
}

// confirmed says why what is dangerous is not done: "" when the visitor has typed
// the own password. A wrong one is noted: somebody may sit at a browser that is
// another's.
func (s *server) confirmed(v visit) (fault string, err error) {
	hash, err := s.Store.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return "", err
	}
	ok, err := s.mayGuess(v.Context(), limit.Address(v.Request), v.Member.Email)
	if err != nil {
		return "", err
	}
	if !ok {
		return "There were too many attempts. Wait a minute, then try again.", nil
	}
	if ok, err = samePassword(v.Context(), v.PostFormValue("password"), hash); err != nil || ok {
		return "", err
	}
	return "Your password is not right.", s.Store.Audit(v.Context(), v.auditBoth("member.password_refused", v.Member.ID, "at "+v.URL.Path))
}

// confirmPage asks for the password before a form does what is dangerous.
type confirmPage struct {
	Text   string // what would be done
	Button string
	Back   string // path
	Fields []pair // of the form, which are sent again
	Fault  string
}

// unconfirmed is the page that asks for the visitor's password, nil when the form
// has the right one.
func (s *server) unconfirmed(v visit, p confirmPage) (*answer, error) {
	if err := v.ParseForm(); err != nil {
		return nil, fmt.Errorf("read form: %w", err)
	}
	if v.PostForm.Has("password") {
		fault, err := s.confirmed(v)
		if err != nil || fault == "" {
			return nil, err
		}
		p.Fault = fault
	}
	for _, name := range slices.Sorted(maps.Keys(v.PostForm)) {
		for _, text := range v.PostForm[name] {
			if name != "password" {
				p.Fields = append(p.Fields, pair{name, text})
			}
		}
	}
	const title = "Confirm with your password"
	got, err := show("confirm", title, p)
	if p.Fault != "" {
		got, err = refuse("confirm", title, p)
	}
	return &got, err
}
