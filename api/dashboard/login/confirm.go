package login

import (
	"fmt"
	"maps"
	"slices"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
)

// Confirmed checks the visitor's password before a dangerous action, and a code when the visitor has a
// second factor. It returns "" when they are right, else a fault. The audit log notes a wrong password,
// because a stranger may sit at the member's browser.
func (s *Server) Confirmed(v face.Visit) (fault string, err error) {
	hash, err := s.Store.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return "", err
	}
	ok, err := s.mayGuess(v.Context(), limit.Address(v.Request), v.Member.Email)
	if err != nil {
		return "", err
	}
	if !ok {
		return "Too many attempts. Wait a minute, then try again.", nil
	}
	ok, err = passhash.Same(v.Context(), v.PostFormValue("password"), hash)
	switch {
	case err != nil:
		return "", err
	case ok && v.Member.SecondFactor:
		return s.factorFault(v.Request, v.Member, ceremony{toStepUp, v.Browser})
	case ok:
		return "", nil
	}
	return "The password is wrong.", s.Store.Audit(
		v.Context(), v.AuditBoth("member.password_refused", v.Member.ID, "at "+v.URL.Path),
	)
}

// ConfirmPage asks who sits at the browser before a dangerous action: for the password, and for a code
// when the visitor has a second factor.
type ConfirmPage struct {
	Text   string // describes the action
	Button string
	Back   string  // path
	Fields []Field // the form's fields, sent again after the password
	Fault  string
	// Grave actions concern owners, live keys and live payout addresses. They can need a second factor.
	Grave bool
}

// Field is a field of a form.
type Field struct{ Key, Value string }

// WithoutFactor returns the page that leads a visitor without a second factor to set one up, nil when the
// visitor has one or need not. back is the path of the page before.
func (s *Server) WithoutFactor(v face.Visit, back string) (*face.Answer, error) {
	if !s.RequireFactor || v.Member.SecondFactor {
		return nil, nil
	}
	got, err := face.Refuse("needs_factor", "Set up a second factor first", back)
	return &got, err
}

// proofs are the fields of the template "step_up".
var proofs = []string{"password", "code", "passkey", "username"}

// Unconfirmed returns the page that asks the visitor to confirm who they are, nil when the form proves it.
func (s *Server) Unconfirmed(v face.Visit, p ConfirmPage) (*face.Answer, error) {
	if err := v.ParseForm(); err != nil {
		return nil, fmt.Errorf("read form: %w", err)
	}
	if p.Grave {
		if page, err := s.WithoutFactor(v, p.Back); page != nil || err != nil {
			return page, err
		}
	}
	if v.PostForm.Has("password") {
		fault, err := s.Confirmed(v)
		if err != nil || fault == "" {
			return nil, err
		}
		p.Fault = fault
	}
	for _, name := range slices.Sorted(maps.Keys(v.PostForm)) {
		for _, text := range v.PostForm[name] {
			if !slices.Contains(proofs, name) {
				p.Fields = append(p.Fields, Field{name, text})
			}
		}
	}
	const title = "Confirm your identity"
	got, err := face.Show("confirm", title, p)
	if p.Fault != "" {
		got, err = face.Refuse("confirm", title, p)
	}
	return &got, err
}
