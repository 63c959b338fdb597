package dashboard

import (
	"bytes"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func (b *browser) upload(logo []byte, fields ...string) received {
	return b.do(b.uploading(logo, fields...))
}

func (b *browser) uploading(logo []byte, fields ...string) *http.Request {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(b.t, w.WriteField(fields[i], fields[i+1]))
	}
	part := must.Get(w.CreateFormFile("logo", "logo.png"))(b.t)
	must.Get(part.Write(logo))(b.t)
	form := b.form("/test/settings", "/test/settings/brand")
	for _, name := range []string{"before_color", "before_logo", "before_support", "before_terms_url", "before_privacy_url", "before_receipts"} {
		require.NoError(b.t, w.WriteField(name, form.fields.Get(name)))
	}
	require.NoError(b.t, w.Close())
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.address("/test/settings/brand"), &body)
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

func picture(t *testing.T, width, height int) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, width, height))))
	return b.Bytes()
}

func (d *desk) brand() people.Brand {
	brand := must.Get(d.store.People.Brand(d.t.Context(), d.merchant))(d.t)
	return brand
}

func TestBrand_ColorAndLogoOfTheHostedPage(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.upload(picture(t, 300, 100), "color", "#AB12cd").is(303)
	brand := d.brand()
	require.Equal(t, "#ab12cd", brand.Color)
	require.True(t, brand.HasLogo())
	owner.get("/test/settings").shows(`src="data:image/png;base64,`)
	owner.get("/test/audit").shows("color: the page's own → #AB12cd; another logo")

	owner.upload(nil, "color", "#000000", "default_color", "on").is(303)
	brand = d.brand()
	require.Empty(t, brand.Color)
	require.True(t, brand.HasLogo(), "no file was chosen")
	owner.upload(nil, "color", "#123456", "remove_logo", "on").is(303)
	brand = d.brand()
	require.Equal(t, "#123456", brand.Color)
	require.False(t, brand.HasLogo())
}

func TestBrand_LinksOfThePagesFoot(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.upload(nil, "support", " help@shop.example ", "terms_url", "https://shop.example/terms").is(303)
	owner.upload(nil, "support", "https://shop.example/help", "terms_url", "https://shop.example/terms").is(303)
	owner.get("/test/audit").shows("support: none → help@shop.example; terms_url: none → https://shop.example/terms")
	owner.get("/live/audit").shows("support: help@shop.example → https://shop.example/help")

	wrong := owner.upload(nil, "support", "help", "terms_url", "https://shop.example/agb")
	wrong.is(422).shows("This must be an e-mail address, or an https address")
	wrong.shows(`value="https://shop.example/agb"`) // what was typed stays
	stored := d.brand()
	require.Equal(t, people.Contact{Support: "https://shop.example/help", TermsURL: "https://shop.example/terms"}, stored.Contact)
	owner.get("/test/settings").shows(`href="https://pay.example.com/preview/` + d.merchant + `"`)
	d.as(merchant.RoleDeveloper).upload(nil, "support", "me@shop.example").is(403)
}

// A refused form finds another person's change like the first one.
func TestBrand_ARefusedFormOverwritesNothing(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	sent := owner.uploading(nil, "support", "help", "terms_url", "https://shop.example/terms")
	require.NoError(t, d.store.People.SetBrand(t.Context(), d.merchant,
		people.BrandChange{Color: new("#123456"), Contact: &people.Contact{Support: "other@shop.example"}}, merchant.AuditEntry{
			ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: d.merchant, Actor: "other", Action: "brand.changed"}))
	refused := owner.do(sent).is(422)
	again := owner.formOf(refused, "/test/settings/brand").send("support", "mine@shop.example").is(409)
	again.shows(`value="https://shop.example/terms"`) // what was typed stays
	brand := d.brand()
	require.Equal(t, "other@shop.example", brand.Support)
	require.Equal(t, "#123456", brand.Color)
}

func TestBrand_Receipts(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	stored := func() bool { return value[bool](d, `SELECT receipts FROM merchant WHERE id = $1`, d.merchant) }
	require.False(t, stored())
	owner.upload(nil, "receipts", "on").is(303)
	require.True(t, stored())
	owner.get("/live/audit").shows("receipts: false → true")
	owner.upload(nil, "receipts", "on", "color", "#123456").is(303)
	require.True(t, stored())
	owner.upload(nil).is(303)
	require.False(t, stored())
}

func TestBrand_RefusesWhatIsWrong(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	const support = "help@shop.example"
	owner.upload(picture(t, 30, 10), "color", "#123456", "support", support).is(303)
	for name, c := range map[string]struct {
		logo  []byte
		color string
		want  string
	}{
		"no picture":      {[]byte("<svg onload=alert(1)>"), "#123456", "must be a PNG or JPEG"},
		"cut off":         {picture(t, 300, 100)[:60], "#123456", "must be a PNG or JPEG"},
		"too many pixels": {picture(t, 1001, 1), "#123456", "at most 1000"},
		"too many bytes":  {bytes.Repeat([]byte("x"), 1<<20+1), "#123456", "at most 1000"},
		"far too many":    {bytes.Repeat([]byte("x"), 3<<20), "#123456", "at most 1000"},
		"no color":        {nil, "red", "must be a color"},
		"styles":          {nil, "#123456;background:url(x)", "must be a color"},
	} {
		got := owner.upload(c.logo, "color", c.color, "support", support, "receipts", "on").is(422, name).shows(c.want)
		again := owner.formOf(got, "/test/settings/brand").fields
		require.Equal(t, support, again.Get("support"), "%s: a second try removes no link", name)
		require.Equal(t, name != "far too many", again.Has("receipts"), "%s: what was typed stays if it could be read", name)
	}
	brand := d.brand()
	require.Equal(t, "#123456", brand.Color)
	require.True(t, brand.HasLogo())
}
