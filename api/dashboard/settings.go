package dashboard

import (
	"context"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// settingsPage is what a merchant can set.
type settingsPage struct {
	Merchant  checkout.Merchant
	Plans     []checkout.Plan
	Addresses []addressField
	Brand     storage.Brand
	Logo      template.URL      // data: address of the logo, "" for none
	Faults    map[string]string // by field
}

// addressField is the payout address of one currency.
type addressField struct {
	Currency checkout.PayoutCurrency
	Network  string
	Address  string // what is typed in, "" for none
	Before   string // what is stored
	Fault    string
}

// Changed reports whether what is typed in is new.
func (f addressField) Changed() bool { return f.Address != f.Before }

// Name is the name of the form's field.
func (f addressField) Name() string { return "address_" + string(f.Currency) }

// Attempts are the numbers of failed payments that can end a session.
func (settingsPage) Attempts() (all []int) {
	for n := checkout.MinPaymentAttempts; n <= checkout.MaxPaymentAttempts; n++ {
		all = append(all, n)
	}
	return all
}

// Fee is a plan's fee as people read it.
func (settingsPage) Fee(p checkout.Plan) string {
	return fmt.Sprintf("%d.%02d %%", p.FeeBasisPoints/100, p.FeeBasisPoints%100)
}

func (s *server) showSettings(v visit) (answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return answer{}, err
	}
	return show("settings", "Settings", p)
}

// settingsPage reads what is stored.
func (s *server) settingsPage(v visit) (settingsPage, error) {
	p := settingsPage{Plans: checkout.Plans, Faults: map[string]string{}}
	var err error
	if p.Merchant, err = s.Store.Merchant(v.Context(), v.MerchantID()); err != nil {
		return p, err
	}
	if err := s.readBrand(v, &p); err != nil {
		return p, err
	}
	stored, err := s.Store.PayoutAddresses(v.Context(), v.MerchantID(), v.Mode)
	if err != nil {
		return p, err
	}
	for _, c := range checkout.PayoutCurrencies {
		f := addressField{Currency: c, Network: c.Network()}
		for _, to := range stored {
			if to.Currency == c {
				f.Address, f.Before = to.Address, to.Address
			}
		}
		p.Addresses = append(p.Addresses, f)
	}
	return p, nil
}

var settingsChanged = notice("settings_changed", "The settings were changed, and your webhooks are told (merchant.updated).")

// changeSettings serves POST /{mode}/settings: what holds for both modes.
func (s *server) changeSettings(v visit) (answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return answer{}, err
	}
	m := &p.Merchant
	m.Name = strings.TrimSpace(v.PostFormValue("name"))
	if m.Name == "" || utf8.RuneCountInString(m.Name) > maxName || strings.ContainsFunc(m.Name, unicode.IsControl) {
		p.Faults["name"] = fmt.Sprintf("The name must have 1 to %d characters.", maxName)
	}
	attempts, err := strconv.Atoi(v.PostFormValue("payment_attempts"))
	if err != nil || attempts < checkout.MinPaymentAttempts || attempts > checkout.MaxPaymentAttempts {
		p.Faults["payment_attempts"] = fmt.Sprintf("Choose a number from %d to %d.", checkout.MinPaymentAttempts, checkout.MaxPaymentAttempts)
	}
	m.PaymentAttempts = attempts
	m.OrderIDGuard = v.PostFormValue("order_id_guard") == "on"
	var plan *checkout.Plan
	for _, known := range checkout.Plans {
		if known.Name == v.PostFormValue("plan") {
			plan = &known
		}
	}
	if plan == nil && v.PostFormValue("plan") != m.Plan { // a plan of an operator's own stays until another is chosen
		p.Faults["plan"] = "Choose a plan."
	}
	if len(p.Faults) > 0 {
		return refuse("settings", "Settings", p)
	}
	return s.changeMerchant(v, storage.MerchantChange{
		MerchantID: v.MerchantID(), Name: &m.Name, Plan: plan, PaymentAttempts: &m.PaymentAttempts, OrderIDGuard: &m.OrderIDGuard,
		Mode: v.Mode, By: v.auditBoth("merchant.changed", v.MerchantID(), ""),
	})
}

const (
	maxName    = 100
	maxAddress = 200 // characters; real ones have less than half of it
)

// changeAddresses serves POST /{mode}/settings/payout: first it shows what
// would change, then, with the password, it changes it.
func (s *server) changeAddresses(v visit) (answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return answer{}, err
	}
	var changed []checkout.PayoutAddress
	faulty := false
	for i := range p.Addresses {
		f := &p.Addresses[i]
		f.Address = strings.TrimSpace(v.PostFormValue(f.Name()))
		if !f.Changed() {
			continue
		}
		if f.Address != "" {
			if err := checkPayoutAddress(v.Mode, f.Network, f.Address[:min(len(f.Address), maxAddress)]); err != nil {
				f.Fault, faulty = "The address "+err.Error()+".", true
			}
		}
		changed = append(changed, checkout.PayoutAddress{Currency: f.Currency, Network: f.Network, Address: f.Address})
	}
	switch {
	case faulty:
		return refuse("settings", "Settings", p)
	case len(changed) == 0:
		return goTo(v.Path("/settings"), nothingChanged)
	case !v.PostForm.Has("password"):
		return show("payout", "Change payout addresses", p)
	}
	ok, err := s.confirmed(v)
	if err != nil {
		return answer{}, err
	}
	if !ok {
		p.Faults["password"] = "The password is not right."
		return refuse("payout", "Change payout addresses", p)
	}
	return s.changeMerchant(v, storage.MerchantChange{
		MerchantID: v.MerchantID(), Mode: v.Mode, Addresses: changed, By: v.audit("payout_address.changed", v.MerchantID(), ""),
	})
}

var nothingChanged = notice("nothing_changed", "Nothing is different, so nothing was changed.")

// changeMerchant changes settings and starts the workflows that tell the
// merchant's registrations.
func (s *server) changeMerchant(v visit, c storage.MerchantChange) (answer, error) {
	events, err := s.Store.ChangeMerchant(v.Context(), c)
	if err != nil {
		return answer{}, err
	}
	if len(events) == 0 {
		return goTo(v.Path("/settings"), nothingChanged)
	}
	for _, e := range events {
		s.tell(v, e)
	}
	return goTo(v.Path("/settings"), settingsChanged)
}

// tellTimeout is how long a person waits for a workflow to be started.
const tellTimeout = time.Second

// tell starts the workflow of a merchant.updated event. The event is committed:
// if that fails, Reconcile starts its deliveries.
func (s *server) tell(v visit, e storage.MerchantUpdated) {
	ctx, cancel := context.WithTimeout(v.Context(), tellTimeout)
	defer cancel()
	if err := s.Workflows.StartMerchantUpdate(ctx, v.MerchantID(), e.Mode, e.EventID); err != nil {
		s.Log.WarnContext(ctx, "left to Reconcile", "error", err, "event_id", e.EventID)
	}
}
