package dashboard

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// settingsPage shows the merchant's settings.
type settingsPage struct {
	Merchant    merchant.Merchant // as typed
	Stored      merchant.Merchant
	Addresses   []addressField
	Announced   []merchant.AddressChange // addresses that change later
	Delay       time.Duration            // of a changed address
	Mail        bool                     // owners get a mail about it
	Brand       people.Brand             // as typed
	StoredBrand people.Brand
	Logo        template.URL // data: address of the logo, "" for none
	// ReceiptMail: there is a mail server, so customers may get receipts.
	ReceiptMail bool
	Preview     string            // address of the hosted page as it would look
	Faults      map[string]string // by field
}

// addressField is the payout address of one currency.
type addressField struct {
	Currency money.PayoutCurrency
	Network  string
	Address  string // as typed, "" for none
	Before   string // stored value when the form was shown
	Fault    string
	Delay    time.Duration // of a changed address, but not of a first one
}

// Changed reports whether the typed address is new.
func (f addressField) Changed() bool { return f.Address != f.Before }

// Waits reports whether the typed address is only announced.
func (f addressField) Waits() bool { return f.Before != "" && f.Delay > 0 }

// Name returns the name of the form's field.
func (f addressField) Name() string { return "address_" + string(f.Currency) }

// BeforeName returns the name of the hidden field with the stored address.
func (f addressField) BeforeName() string { return "before_" + f.Name() }

// Attempts returns the choices for the number of failed payments that end a session.
func (settingsPage) Attempts() (all []int) {
	for n := merchant.MinPaymentAttempts; n <= merchant.MaxPaymentAttempts; n++ {
		all = append(all, n)
	}
	return all
}

// Fee returns the plan's fee.
func (p settingsPage) Fee() merchant.Fee { return p.Stored.Fee() }

func (s *server) showSettings(v page.Visit) (page.Answer, error) {
	p, err := s.settingsPage(v)
	return page.ShowAfter(err, "settings", "Settings", p)
}

// settingsPage reads the stored settings.
func (s *server) settingsPage(v page.Visit) (settingsPage, error) {
	p := settingsPage{
		Faults: map[string]string{}, Preview: checkout.PreviewURL(s.CheckoutURL, v.MerchantID()), ReceiptMail: s.Mail,
	}
	var err error
	if p.Stored, err = s.Store.Merchants.Merchant(v.Context(), v.MerchantID()); err != nil {
		return p, err
	}
	p.Merchant = p.Stored
	if err := s.readBrand(v, &p); err != nil {
		return p, err
	}
	stored, err := s.Store.Merchants.PayoutAddresses(v.Context(), v.Owner())
	if err != nil {
		return p, err
	}
	if p.Announced, err = s.Store.Merchants.AddressChanges(v.Context(), v.Owner()); err != nil {
		return p, err
	}
	if v.Mode.Live() {
		p.Delay, p.Mail = s.AddressDelay, s.Mail
	}
	for _, c := range money.PayoutCurrencies {
		f := addressField{Currency: c, Network: c.Network(), Delay: p.Delay}
		for _, to := range stored {
			if to.Currency == c {
				f.Address, f.Before = to.Address, to.Address
			}
		}
		p.Addresses = append(p.Addresses, f)
	}
	return p, nil
}

var settingsChanged = page.Notice("settings_changed", "The settings were changed. Your webhooks get merchant.updated.")

// changeSettings serves POST …/settings, the settings of both modes. It writes only the
// fields that the person has changed. Other people's changes of other fields stay.
func (s *server) changeSettings(v page.Visit) (page.Answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return page.Answer{}, err
	}

	c := storage.MerchantChange{MerchantID: v.MerchantID(), Mode: v.Mode}
	s.readSettings(v, &c, p.Faults)
	if len(p.Faults) > 0 {
		p.restoreShown(c.Was)
		p.showTyped(c, nil)
		return page.Refuse("settings", "Settings", p)
	}

	got, err := s.changeMerchant(v, c)
	var conflict *pg.ChangedError
	if !errors.As(err, &conflict) {
		return got, err
	}

	if p, err = s.settingsPage(v); err != nil {
		return page.Answer{}, err
	}

	p.showTyped(c, conflict.Fields)
	for _, field := range conflict.Fields {
		p.Faults[field] = conflictFault(v.PostFormValue(field))
	}
	return page.Answer{Status: http.StatusConflict, Page: "settings", Title: "Settings", Data: p}, nil
}

// readSettings reads the fields that the person has changed, and adds their faults.
func (s *server) readSettings(v page.Visit, c *storage.MerchantChange, faults map[string]string) {
	number := func(name string) int {
		n, _ := strconv.Atoi(v.PostFormValue(name)) // 0 is refused too
		return n
	}

	c.Was = &merchant.Merchant{
		Name: v.PostFormValue("before_name"), PaymentAttempts: number("before_payment_attempts"),
		OrderIDGuard: v.PostFormValue("before_order_id_guard") == "true",
	}

	if name := strings.TrimSpace(v.PostFormValue("name")); name != c.Was.Name {
		c.Name = &name
		if err := action.CheckLabel(name); err != nil {
			faults["name"] = "The name " + err.Error() + "."
		}
	}

	if attempts := number("payment_attempts"); attempts != c.Was.PaymentAttempts {
		c.PaymentAttempts = &attempts
		if attempts < merchant.MinPaymentAttempts || attempts > merchant.MaxPaymentAttempts {
			faults["payment_attempts"] = fmt.Sprintf(
				"Choose a number from %d to %d.", merchant.MinPaymentAttempts,
				merchant.MaxPaymentAttempts,
			)
		}
	}

	if guard := v.PostFormValue("order_id_guard") == "on"; guard != c.Was.OrderIDGuard {
		c.OrderIDGuard = &guard
	}
}

// restoreShown puts the values into the page that the form had when it was shown. The form compares what is sent next
// with them, so another person's change meanwhile is still found.
func (p *settingsPage) restoreShown(was *merchant.Merchant) {
	for _, m := range []*merchant.Merchant{&p.Merchant, &p.Stored} {
		m.Name, m.PaymentAttempts, m.OrderIDGuard = was.Name, was.PaymentAttempts, was.OrderIDGuard
	}
}

// showTyped puts the typed values into the page. Fields in conflicts keep the stored value, because
// another person has changed them first.
func (p *settingsPage) showTyped(c storage.MerchantChange, conflicts []string) {
	if c.Name != nil && !slices.Contains(conflicts, "name") {
		p.Merchant.Name = *c.Name
	}
	if c.PaymentAttempts != nil && !slices.Contains(conflicts, "payment_attempts") {
		p.Merchant.PaymentAttempts = *c.PaymentAttempts
	}
	if c.OrderIDGuard != nil {
		p.Merchant.OrderIDGuard = *c.OrderIDGuard
	}
}

// conflictFault returns the message for a field that another person has changed since the form was
// shown.
func conflictFault(typed string) string {
	if typed == "" {
		return "Someone else changed this in the meantime. This is the current value. You had left it empty."
	}
	return "Someone else changed this in the meantime. This is the current value. You had entered “" + typed + "”."
}

// changeAddresses serves POST …/settings/payout. Without a proof of who asks, it leads to the page that shows the
// changes and asks for it. With a passkey, or the password and the second factor, it writes them. It writes only the
// addresses that the person has changed.
func (s *server) changeAddresses(v page.Visit) (page.Answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return page.Answer{}, err
	}

	c := storage.MerchantChange{
		MerchantID: v.MerchantID(), Mode: v.Mode, WereAddresses: map[money.PayoutCurrency]string{}, Delay: p.Delay,
	}

	faulty, conflict := s.readAddresses(v, &p, &c)
	switch {
	case conflict:
		return page.Answer{Status: http.StatusConflict, Page: "settings", Title: "Settings", Data: p}, nil
	case faulty:
		return page.Refuse("settings", "Settings", p)
	case len(c.Addresses) == 0:
		return page.GoTo(v.Path("/settings"), page.NothingChanged)
	}
	if v.Mode.Live() {
		if unconfirmed, err := s.login.RequireSecondFactor(v, v.Path("/settings")); unconfirmed != nil || err != nil {
			return page.OrNone(unconfirmed), err
		}
	}
	switch {
	case v.Method == http.MethodGet:
		return page.Show("payout_addresses", "Change payout addresses", p)
	case !v.PostForm.Has("password"):
		return s.login.AskForProof(v, v.Path("/settings/payout"), login.ConfirmPage{})
	}

	fault, err := s.login.CheckProof(v)
	if err != nil {
		return page.Answer{}, err
	}
	if fault != "" {
		p.Faults["password"] = fault
		return page.Refuse("payout_addresses", "Change payout addresses", p)
	}

	got, err := s.changeMerchant(v, c)
	if _, faster := errors.AsType[*pg.ChangedError](err); faster {
		// Another change came first: read the form again, which shows the conflict.
		return s.changeAddresses(v)
	}
	return got, err
}

// readAddresses puts the addresses of the form into p, and those that the person has changed into c. conflict reports
// that someone else has changed one of them meanwhile.
func (s *server) readAddresses(v page.Visit, p *settingsPage, c *storage.MerchantChange) (faulty, conflict bool) {
	for i := range p.Addresses {
		f := &p.Addresses[i]
		stored := f.Before
		f.Address, f.Before = strings.TrimSpace(v.PostFormValue(f.Name())), strings.TrimSpace(v.PostFormValue(f.BeforeName()))
		if !f.Changed() {
			f.Address, f.Before = stored, stored
			continue
		}
		c.WereAddresses[f.Currency] = f.Before
		c.Addresses = append(
			c.Addresses,
			merchant.PayoutAddress{Currency: f.Currency, Network: f.Network, Address: f.Address},
		)
		switch err := s.checkAddress(v.Mode, f); {
		case stored != f.Before && stored != f.Address:
			f.Fault, conflict = conflictFault(f.Address), true
			f.Address, f.Before = stored, stored
		case err != nil:
			f.Fault, faulty = "The address "+err.Error()+".", true
		}
	}
	return faulty, conflict
}

// showAddresses serves GET …/settings/payout, which shows the changes of a form that was sent without a password.
func (s *server) showAddresses(v page.Visit) (page.Answer, error) {
	asked, ok, err := s.login.ReadConfirmation(v)
	if err != nil {
		return page.Answer{}, err
	}
	if !ok {
		return page.GoTo(v.Path("/settings"), "")
	}
	v.PostForm = asked.Fields
	return s.changeAddresses(v)
}

func (s *server) checkAddress(mode checkout.Mode, f *addressField) error {
	if f.Address == "" {
		return nil
	}
	return s.Addresses.Check(mode, f.Network, f.Address)
}

// changeMerchant changes settings or payout addresses.
func (s *server) changeMerchant(v page.Visit, c storage.MerchantChange) (page.Answer, error) {
	changed, err := s.actions.ChangeMerchant(v.Context(), c, v.By())
	switch {
	case err != nil:
		return page.Answer{}, err
	case len(changed.Announced) > 0:
		return page.GoTo(v.Path("/settings"), addressAnnounced)
	case len(changed.Events) == 0:
		return page.GoTo(v.Path("/settings"), page.NothingChanged)
	}
	return page.GoTo(v.Path("/settings"), settingsChanged)
}

var (
	addressAnnounced = page.Notice(
		"address_announced", "The change is scheduled. Until then payouts go to the old address.",
	)
	addressStopped  = page.Notice("address_stopped", "The change is stopped. Payouts continue to the current address.")
	addressNotThere = page.Notice("address_not_there", "This change is no longer scheduled. Check the addresses.")
)

// stopAddressChange serves POST …/settings/payout/stop. It needs no password: a member who sees a
// theft must be fast, and what is stopped can be announced again.
func (s *server) stopAddressChange(v page.Visit) (page.Answer, error) {
	to := merchant.PayoutAddress{
		Currency: money.PayoutCurrency(v.PostFormValue("currency")), Address: v.PostFormValue("address"),
	}
	err := action.StopAddressChange(v.Context(), s.Store.Merchants, v.Owner(), to, v.By())
	if errors.Is(err, checkout.ErrNotFound) {
		return page.GoTo(v.Path("/settings"), addressNotThere)
	}
	return page.GoToAfter(err, v.Path("/settings"), addressStopped)
}
