package dashboard

import (
	"cmp"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// defaultColor is the color for merchants without one.
const defaultColor = "#0f5e63"

// Color returns the value of the page's color field.
func (p settingsPage) Color() string { return cmp.Or(p.Brand.Color, defaultColor) }

// contactField is one link of the page's footer in the form.
type contactField struct{ Name, Label, Typed, Stored, Fault string }

// Contacts returns the fields of the links of the page's footer.
func (p settingsPage) Contacts() (all []contactField) {
	labels := []string{
		"Support: an e-mail address or an https address", "Terms, an https address", "Privacy policy, an https address",
	}
	for i, name := range people.ContactFields {
		all = append(all, contactField{name, labels[i], *p.Brand.Field(name), *p.StoredBrand.Field(name), p.Faults[name]})
	}
	return all
}

// readBrand reads the color and the logo of the hosted page.
func (s *server) readBrand(v page.Visit, p *settingsPage) (err error) {
	p.StoredBrand, err = s.Store.People.Brand(v.Context(), v.MerchantID())
	p.Brand = p.StoredBrand
	if err != nil || !p.Brand.HasLogo() {
		return err
	}
	logo, _, err := s.Store.People.Logo(v.Context(), v.MerchantID())
	if errors.Is(err, checkout.ErrNotFound) { // removed since the query above
		return nil
	}
	p.Logo = template.URL(
		"data:image/png;base64," + base64.StdEncoding.EncodeToString(logo),
	) // #nosec G203 -- this service encoded the PNG
	return err
}

var brandChanged = page.Notice("brand_changed", "The hosted page was changed.")

// changeBrand serves POST …/settings/brand. It changes the color and the logo of the hosted
// page.
func (s *server) changeBrand(v page.Visit) (page.Answer, error) {
	change, err := brandChange(v)
	if err == nil && !change.Empty() {
		err = action.ChangeBrand(v.Context(), s.Store.People, v.MerchantID(), change, v.By())
	}
	conflict, faster := errors.AsType[*pg.ChangedError](err)
	wrong, isContact := errors.AsType[*people.ContactError](err)
	switch {
	case faster:
		return s.showBrandForm(v, change, http.StatusConflict, brandConflicts(change, conflict), conflict.Fields...)
	case errors.Is(err, people.ErrColor):
		return s.refuseBrand(v, change, "color", "The color "+err.Error()+".", "color")
	case errors.Is(err, people.ErrLogo), errors.Is(err, people.ErrLogoLarge):
		return s.refuseBrand(v, change, "logo", "The logo "+err.Error()+".")
	case isContact:
		return s.refuseBrand(v, change, wrong.Field, "This "+wrong.Error()+".")
	case err == nil && change.Empty():
		return page.GoTo(v.Path("/settings"), page.NothingChanged)
	}
	return page.GoToAfter(err, v.Path("/settings"), brandChanged)
}

// refuseBrand is showBrandForm with a field's fault.
func (s *server) refuseBrand(
	v page.Visit, typed people.BrandChange, field, fault string, stored ...string,
) (page.Answer, error) {
	return s.showBrandForm(v, typed, http.StatusUnprocessableEntity, map[string]string{field: fault}, stored...)
}

// showBrandForm shows the form again as it was typed. The fields in stored show the stored value.
func (s *server) showBrandForm(
	v page.Visit, typed people.BrandChange, status int, faults map[string]string, stored ...string,
) (page.Answer, error) {
	p, err := s.settingsPage(v)
	if err != nil {
		return page.Answer{}, err
	}
	p.Faults = faults
	if status == http.StatusUnprocessableEntity && typed.Was != nil {
		p.restoreShownBrand(*typed.Was)
	}
	p.showTypedBrand(typed, stored)
	return page.Answer{Status: status, Page: "settings", Title: "Settings", Data: p}, nil
}

// restoreShownBrand is restoreShown for the form of the hosted page.
func (p *settingsPage) restoreShownBrand(was people.Brand) {
	p.StoredBrand.LogoVersion = was.LogoVersion
	for _, b := range []*people.Brand{&p.Brand, &p.StoredBrand} {
		b.Color, b.Contact, b.Receipts = was.Color, was.Contact, was.Receipts
	}
}

// showTypedBrand puts what the person has changed into the page, but for the fields in stored.
func (p *settingsPage) showTypedBrand(c people.BrandChange, stored []string) {
	if c.Color != nil && !slices.Contains(stored, "color") {
		p.Brand.Color = *c.Color
	}
	if c.Receipts != nil {
		p.Brand.Receipts = *c.Receipts
	}
	if c.Contact == nil {
		return
	}
	for _, name := range people.ContactFields {
		if typed := *c.Contact.Field(name); typed != *c.Was.Field(name) && !slices.Contains(stored, name) {
			*p.Brand.Field(name) = typed
		}
	}
}

// brandConflicts are the faults of the fields that another person has changed since the form was shown.
func brandConflicts(typed people.BrandChange, conflict *pg.ChangedError) map[string]string {
	faults := map[string]string{}
	for _, field := range conflict.Fields {
		switch field {
		case "logo": // a page cannot keep a chosen file
			faults[field] = "Someone else changed this in the meantime. This is the current logo. Choose yours again."
		case "color":
			faults[field] = conflictFault(cmp.Or(*typed.Color, "the default color"))
		default:
			faults[field] = conflictFault(*typed.Contact.Field(field))
		}
	}
	return faults
}

// logosWaiting is how many logos may wait for decoding.
const logosWaiting = 8

// decoding bounds the processor time for logos. decodingOf lets each merchant send one logo at a
// time. A logo takes a turn of decoding only after it was read, because its sender may be slow.
var (
	decoding   = limit.NewGate(1, logosWaiting)
	decodingOf = limit.NewShares(1)
)

// brandChange reads the difference between the form and the values that it was shown with. Without a
// chosen file the logo stays. Errors: limit.ErrBusy, storage.ErrLogo and storage.ErrLogoLarge.
func brandChange(v page.Visit) (change people.BrandChange, err error) {
	turn, err := decodingOf.Enter(v.Context(), v.MerchantID())
	if err != nil {
		return change, err
	}
	defer turn.Leave(false)

	if err := v.ParseMultipartForm(maxUpload); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return change, people.ErrLogoLarge // the form's other fields are unknown
	}

	color := v.PostFormValue("color")
	if v.PostFormValue("default_color") == "on" {
		color = ""
	}

	change.Was = &people.Brand{Color: v.PostFormValue("before_color"), LogoVersion: v.PostFormValue("before_logo")}
	if !strings.EqualFold(color, change.Was.Color) {
		change.Color = &color
	}

	contact := contactIn(v, "")
	if change.Was.Contact = contactIn(v, "before_"); contact != change.Was.Contact {
		change.Contact = &contact
	}
	before, receipts := v.PostFormValue("before_receipts"), v.PostFormValue("receipts") == "on"
	change.Was.Receipts = before == "true"
	if before != "" && receipts != change.Was.Receipts {
		change.Receipts = &receipts
	}

	if v.PostFormValue("remove_logo") == "on" {
		change.Logo = &[]byte{}
	}

	file, header, err := v.FormFile("logo")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) ||
		err == nil && header.Size == 0 {
		return change, nil
	}
	if err != nil {
		return change, people.ErrLogo
	}
	defer file.Close()

	var (
		logo  []byte
		fault error
	)
	if err := decoding.Do(v.Context(), func() { logo, fault = people.EncodeLogo(file) }); err != nil {
		return change, err
	}

	change.Logo = &logo
	return change, fault
}

// contactIn reads the links of the page's footer from the fields whose names begin with prefix.
func contactIn(v page.Visit, prefix string) (c people.Contact) {
	for _, name := range people.ContactFields {
		*c.Field(name) = strings.TrimSpace(v.PostFormValue(prefix + name))
	}
	return c
}
