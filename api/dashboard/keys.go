package dashboard

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// keysPage shows the API keys of one mode.
type keysPage struct {
	Groups []keyGroup // group with the newest key first
	Hidden bool       // the visitor may not see live keys
	Secret string     // a new key's secret, shown once
	New    merchant.APIKey
	Form   keyForm
	Fault  string
}

// keyGroup holds the keys with one label. A newer key replaces the older ones.
type keyGroup struct {
	Label   string
	Valid   []merchant.APIKey // newest first
	Revoked []merchant.APIKey // newest first
	Step    rotationStep
}

// rotationStep is the step of a key's replacement. Source: api/interface.md, "Authentication", 8.
type rotationStep int

// Steps of a rotation that wait for a person; 0 is no step.
const (
	stepDeploy  rotationStep = iota + 2 // the new key is not used yet
	stepConfirm                         // both keys are used
	stepRevoke                          // only the new key is used
)

// quietTime is how long an old key must be unused before the page suggests to revoke it.
const quietTime = 15 * time.Minute

// keyForm is the form for a new key.
type keyForm struct {
	Label  string
	Access string // full, read or some
	Scopes merchant.Scopes
}

// Has reports whether a scope is chosen.
func (f keyForm) Has(scope string) bool { return slices.Contains(f.Scopes, scope) }

func (s *server) listKeys(v page.Visit) (page.Answer, error) {
	q := v.URL.Query()
	f := keyForm{Label: q.Get("label"), Access: q.Get("access"), Scopes: q["scope"]}
	if !slices.Contains([]string{merchant.ScopeRead, accessSome}, f.Access) {
		f.Access = merchant.ScopeFull
	}
	return s.keysPage(v, keysPage{Form: f})
}

// hidesKeys reports whether the visitor may not see the keys of the mode.
func hidesKeys(v page.Visit) bool { return v.Mode.Live() && !v.May(merchant.RoleDeveloper) }

// keysPage shows the keys and the result of the last action. It hides live keys from visitors who
// may not manage them.
func (s *server) keysPage(v page.Visit, p keysPage) (page.Answer, error) {
	p.Hidden = hidesKeys(v)
	if !p.Hidden {
		keys, err := s.Store.Merchants.APIKeys(v.Context(), v.MerchantID())
		if err != nil {
			return page.Answer{}, err
		}
		p.Groups = groupKeys(keys, v.Mode, time.Now())
	}
	return page.ShowForm(p.Fault, "keys", "API keys", p)
}

// accessSome is the form's choice of single scopes.
const accessSome = "some"

// createKey serves POST …/keys.
func (s *server) createKey(v page.Visit) (page.Answer, error) {
	form, k, fault := readKeyForm(v)
	if fault != "" {
		return s.keysPage(v, keysPage{Fault: fault, Form: form})
	}
	if v.Mode.Live() {
		unconfirmed, err := s.login.RequireProof(v, login.ConfirmPage{
			Text:   "The live key “" + k.Label + "” will charge real cards. It may " + k.Scopes.Words() + ".",
			Button: "Create the live key", Back: v.Path("/keys"), Grave: true,
		})
		if unconfirmed != nil || err != nil {
			return page.OrNone(unconfirmed), err
		}
	}
	secret := merchant.NewAPIKey(k.Mode)
	secretPage := func(id string) string { return v.Path("/keys/" + id + "/secret") }
	return page.CreateAndReveal(s.Store.Secrets, v, k.ID, secret, secretPage, func() error {
		return action.CreateKey(v.Context(), s.Store.Merchants, k, secret, v.By())
	})
}

func readKeyForm(v page.Visit) (form keyForm, k merchant.APIKey, fault string) {
	form = keyForm{
		Label:  strings.TrimSpace(v.PostFormValue("label")),
		Access: v.PostFormValue("access"),
		Scopes: v.PostForm["scope"],
	}
	k = merchant.APIKey{Ref: v.Owner().Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: form.Label}
	if form.Label == "" {
		return form, k, "Give the key a label, such as the server that will use it."
	}
	if err := action.CheckLabel(form.Label); err != nil {
		return form, k, "The label " + err.Error() + "."
	}

	switch form.Access {
	case merchant.ScopeFull, merchant.ScopeRead:
		if len(form.Scopes) > 0 {
			fault = "You chose “" + upperFirst(merchant.Scopes{form.Access}.Words()) +
				"” and individual scopes. “Only this” is now selected: check it, then create the key."
			form.Access = accessSome // the choice that allows less
			return form, k, fault
		}
		k.Scopes = merchant.Scopes{form.Access}
		return form, k, ""
	case accessSome:
	default:
		return form, k, "Choose what the key may do."
	}

	if len(form.Scopes) == 0 {
		return form, k, "Choose at least one scope."
	}
	scopes, err := merchant.ParseScopes(strings.Join(form.Scopes, ","))
	if err != nil || slices.Contains(scopes, merchant.ScopeFull) || slices.Contains(scopes, merchant.ScopeRead) {
		return form, k, "Choose what the key may do from the list."
	}
	k.Scopes = scopes
	return form, k, ""
}

var keyRevoked = page.Notice("key_revoked", "The key is revoked. It is refused from the next request on.")

// revokeKey serves POST …/keys/{id}/revoke.
func (s *server) revokeKey(v page.Visit) (page.Answer, error) {
	err := action.RevokeKey(v.Context(), s.Store.Merchants, v.Owner().Ref(v.ID()), v.By())
	return page.GoToAfter(err, v.Path("/keys"), keyRevoked)
}

// groupKeys groups a mode's keys by label. keys are newest first, and stay so in a group.
func groupKeys(keys []merchant.APIKey, mode checkout.Mode, now time.Time) []keyGroup {
	var groups []keyGroup
	at := map[string]int{}
	for _, k := range keys {
		if k.Mode != mode {
			continue
		}
		i, ok := at[k.Label]
		if !ok {
			i = len(groups)
			at[k.Label] = i
			groups = append(groups, keyGroup{Label: k.Label})
		}
		if k.RevokedAt == nil {
			groups[i].Valid = append(groups[i].Valid, k)
		} else {
			groups[i].Revoked = append(groups[i].Revoked, k)
		}
	}

	for i := range groups {
		groups[i].Step = groups[i].step(now)
	}
	// Groups with a valid key come first.
	slices.SortStableFunc(groups, func(a, b keyGroup) int { return min(len(b.Valid), 1) - min(len(a.Valid), 1) })
	return groups
}

// Newest returns the valid key that replaces the others.
func (g keyGroup) Newest() merchant.APIKey { return g.Valid[0] }

// Old returns the valid keys that Newest replaces.
func (g keyGroup) Old() []merchant.APIKey { return g.Valid[1:] }

func (g keyGroup) step(now time.Time) rotationStep {
	if len(g.Valid) < 2 {
		return 0
	}
	if g.Newest().UsedAt == nil {
		return stepDeploy
	}
	for _, k := range g.Old() {
		if k.UsedAt != nil && now.Sub(*k.UsedAt) < quietTime {
			return stepConfirm
		}
	}
	return stepRevoke
}

// May returns what a key may do, in words.
func (keysPage) May(k merchant.APIKey) string { return upperFirst(k.Scopes.Words()) }

// Words is May for the middle of a sentence.
func (keysPage) Words(k merchant.APIKey) string { return k.Scopes.Words() }

// Unused describes a key with no recorded use. Last-used times are kept for at least a day.
func (keysPage) Unused(k merchant.APIKey) string {
	if time.Since(k.CreatedAt) < 24*time.Hour {
		return "not used yet"
	}
	return "not used lately"
}

// Choices returns the scopes that a person can choose one by one.
func (keysPage) Choices() []pair {
	var all []pair
	for _, scope := range merchant.AllScopes[2:] {
		all = append(all, pair{scope, upperFirst(merchant.Scopes{scope}.Words())})
	}
	return all
}

// Replace returns the address of the form for a new key with the label and scopes of k.
func (keysPage) Replace(v page.View, k merchant.APIKey) string {
	q := url.Values{"label": {k.Label}, "access": {accessSome}}
	if len(k.Scopes) == 1 && (k.Scopes[0] == merchant.ScopeFull || k.Scopes[0] == merchant.ScopeRead) {
		q.Set("access", k.Scopes[0])
	} else {
		q["scope"] = k.Scopes
	}
	return v.Path("/keys?") + q.Encode() + "#create"
}

// showKeySecret serves GET …/keys/{id}/secret.
func (s *server) showKeySecret(v page.Visit) (page.Answer, error) {
	k, err := s.Store.Merchants.APIKey(v.Context(), v.ID())
	if err == nil && (k.MerchantID != v.MerchantID() || k.Mode != v.Mode) {
		err = checkout.ErrNotFound
	}
	if err != nil {
		return page.Answer{}, err
	}
	secret, err := s.Store.Secrets.TakeReveal(v.Context(), v.Reveal(k.ID))
	if err != nil {
		return page.ExplainMissingReveal(err, v.Path("/keys"))
	}
	return s.keysPage(v, keysPage{Secret: secret, New: k, Form: keyForm{Access: merchant.ScopeFull}})
}
