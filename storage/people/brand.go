package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/image/draw"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// Brand is the look of a merchant's hosted page.
type Brand struct {
	MerchantID  string
	Name        string
	Color       string // "#rrggbb"; "" means the page's own color
	LogoVersion string // 16 hex digits that change with the logo; "" means no logo
	Receipts    bool   // customers who have paid get a mail
	Contact
}

// Contact is what the footer of the hosted page links to. An empty field means no link.
type Contact struct {
	Support    string // an e-mail address, or an https URL
	TermsURL   string
	PrivacyURL string
}

// ContactFields are the names of the fields of Contact.
var ContactFields = []string{"support", "terms_url", "privacy_url"}

// Field returns the field with a name of ContactFields.
func (c *Contact) Field(name string) *string {
	return map[string]*string{"support": &c.Support, "terms_url": &c.TermsURL, "privacy_url": &c.PrivacyURL}[name]
}

// ContactError is a field of a Contact that is wrong. Merchants may see its text.
type ContactError struct {
	Field string // of ContactFields
}

func (e *ContactError) Error() string {
	if e.Field == "support" {
		return "must be an e-mail address, or an https address of at most 2048 characters"
	}
	return "must be an https address of at most 2048 characters"
}

// check returns *ContactError for the first field that is wrong.
func (c Contact) check() error {
	for _, name := range ContactFields {
		text := *c.Field(name)
		_, err := webhook.ParseURL(text, checkout.ModeLive)
		if text != "" && err != nil && (name != "support" || !checkout.ValidEmail(text)) {
			return &ContactError{name}
		}
	}
	return nil
}

// BrandColumns read the Brand of a merchant m, but for MerchantID.
const BrandColumns = `m.name, coalesce(m.brand_color, '') AS color, coalesce(m.logo_version, '') AS logo_version,
	coalesce(m.support, '') AS support, coalesce(m.terms_url, '') AS terms_url,
	coalesce(m.privacy_url, '') AS privacy_url, m.receipts`

const selectBrand = `SELECT m.id AS merchant_id, ` + BrandColumns + ` FROM merchant m WHERE m.id = $1`

// HasLogo reports whether the merchant has a logo.
func (b Brand) HasLogo() bool { return b.LogoVersion != "" }

// Brand returns the look of a merchant's hosted page. It returns checkout.ErrNotFound.
func (s *Store) Brand(ctx context.Context, merchantID string) (Brand, error) {
	b, err := pg.One[Brand](ctx, s.pool, selectBrand, merchantID)
	return b, pg.Wrap("brand", err)
}

// Logo returns a merchant's logo, a PNG, and its version. The logo is public, because every
// customer sees it. It returns checkout.ErrNotFound when the merchant has no logo.
func (s *Store) Logo(ctx context.Context, merchantID string) (content []byte, version string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT logo, logo_version FROM merchant WHERE id = $1 AND logo IS NOT NULL`, merchantID).Scan(&content, &version)
	return content, version, pg.Wrap("logo", pg.Found(err))
}

// BrandChange is a change of a brand. A nil field keeps its value; an empty one removes it.
type BrandChange struct {
	Color   *string // see ParseColor
	Logo    *[]byte // see EncodeLogo
	Contact *Contact
	// Receipts decides whether customers who have paid get a mail.
	Receipts *bool
	// Was holds the values that the editor saw; nil skips the check. See ChangedError.
	Was *Brand
}

// Empty reports whether c changes nothing.
func (c BrandChange) Empty() bool {
	return c.Color == nil && c.Logo == nil && c.Contact == nil && c.Receipts == nil
}

// conflicts returns the fields that c changes and that somebody else changed since the editor saw them.
func (c BrandChange) conflicts(now Brand, color string) (fields []string) {
	if c.Was == nil {
		return nil
	}
	if c.Color != nil && now.Color != c.Was.Color && now.Color != color {
		fields = append(fields, "color")
	}
	if c.Logo != nil && now.LogoVersion != c.Was.LogoVersion {
		fields = append(fields, "logo")
	}
	if c.Contact == nil {
		return fields
	}
	for _, name := range ContactFields {
		was, is, to := *c.Was.Field(name), *now.Field(name), *c.Contact.Field(name)
		if to != was && is != was && is != to {
			fields = append(fields, name)
		}
	}
	return fields
}

// contact returns what is stored after the change. A field that the editor left stays as it is now.
func (c BrandChange) contact(now Contact) Contact {
	if c.Contact == nil {
		return now
	}
	for _, name := range ContactFields {
		if to := *c.Contact.Field(name); c.Was == nil || to != *c.Was.Field(name) {
			*now.Field(name) = to
		}
	}
	return now
}

// SetBrand changes the look of a merchant's hosted page. An open page shows the change when it is
// loaded again. The entries by go to the audit log in the same transaction. It returns ErrColor,
// ErrLogo for a logo that EncodeLogo did not make, *ContactError, *ChangedError, and checkout.ErrNotFound.
func (s *Store) SetBrand(ctx context.Context, merchantID string, change BrandChange, by ...merchant.AuditEntry) error {
	var (
		color *string
		text  string // color, "" for none
		logo  []byte
	)

	if change.Color != nil && *change.Color != "" {
		parsed, err := ParseColor(*change.Color)
		if err != nil {
			return err
		}
		color, text = &parsed, parsed
	}

	if change.Logo != nil && len(*change.Logo) > 0 {
		logo = *change.Logo
	}

	if change.Contact != nil {
		if err := change.Contact.check(); err != nil {
			return err
		}
	}

	err := pg.RunInTx(ctx, s.pool, "set brand", func(tx pgx.Tx) error {
		now, err := pg.One[Brand](ctx, tx, selectBrand+` FOR NO KEY UPDATE`, merchantID)
		if err != nil {
			return err
		}
		if fields := change.conflicts(now, text); len(fields) > 0 {
			return &pg.ChangedError{Fields: fields}
		}
		contact := change.contact(now.Contact)
		_, err = tx.Exec(ctx, `
			UPDATE merchant SET brand_color = CASE WHEN $2 THEN $3 ELSE brand_color END,
				logo = CASE WHEN $4 THEN $5 ELSE logo END,
				support = nullif($6, ''), terms_url = nullif($7, ''), privacy_url = nullif($8, ''),
				receipts = coalesce($9, receipts)
			WHERE id = $1`, merchantID, change.Color != nil, color, change.Logo != nil, logo,
			contact.Support, contact.TermsURL, contact.PrivacyURL, change.Receipts)
		if err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by...)
	})
	if pg.Violates(err, "merchant_logo_check") {
		return ErrLogo
	}
	return err
}

// Errors of a brand. Merchants may see their texts.
var (
	ErrColor     = errors.New("must be a color such as #0f5e63")
	ErrLogo      = errors.New("must be a PNG or JPEG picture")
	ErrLogoLarge = fmt.Errorf("must be at most %d × %d pixels and 1 MiB", maxLogoSide, maxLogoSide)
)

var colorPattern = regexp.MustCompile(`^#([0-9a-f]{3}|[0-9a-f]{6})$`)

// ParseColor reads "#rrggbb" or "#rgb", in upper or lower case, and returns "#rrggbb" in lower
// case. It returns ErrColor.
func ParseColor(typed string) (string, error) {
	c := strings.ToLower(strings.TrimSpace(typed))
	if !colorPattern.MatchString(c) {
		return "", ErrColor
	}
	if len(c) == 4 {
		c = string([]byte{'#', c[1], c[1], c[2], c[2], c[3], c[3]})
	}
	return c, nil
}

const (
	maxLogoUpload = 1 << 20   // bytes
	maxLogoSide   = 1000      // pixels; decoding then takes 8 MB at most
	maxLogo       = 128 << 10 // bytes, as stored
	// The page shows a logo in 200 × 44 pixels at most. These sizes suit screens with three dots per pixel.
	maxLogoWidth, maxLogoHeight = 600, 132
)

// EncodeLogo reads an uploaded picture and returns the PNG to store. The PNG is no larger than the page needs, and it
// holds pixels only: no metadata. It returns ErrLogo when the upload is neither PNG nor JPEG. It returns ErrLogoLarge,
// without decoding, when the upload is larger than 1 MiB or has more than 1,000 pixels on a side.
func EncodeLogo(r io.Reader) ([]byte, error) {
	upload, err := io.ReadAll(io.LimitReader(r, maxLogoUpload+1))
	if err != nil {
		return nil, pg.Wrap("read logo", err)
	}
	if len(upload) > maxLogoUpload {
		return nil, ErrLogoLarge
	}
	picture, err := decodeLogo(upload)
	if err != nil {
		return nil, err
	}
	width, height := FitPicture(picture.Bounds().Dx(), picture.Bounds().Dy(), maxLogoWidth, maxLogoHeight)
	for {
		encoded, err := encodePNG(picture, width, height)
		if err != nil {
			return nil, pg.Wrap("encode logo", err)
		}
		if len(encoded) <= maxLogo {
			return encoded, nil
		}
		// A photograph compresses badly; 1 × 1 always fits.
		width, height = max(1, width*3/4), max(1, height*3/4)
	}
}

// decodeLogo checks the size of a picture before it decodes the pixels.
func decodeLogo(upload []byte) (image.Image, error) {
	size, decode := png.DecodeConfig, png.Decode
	if bytes.HasPrefix(upload, []byte{0xff, 0xd8, 0xff}) {
		size, decode = jpeg.DecodeConfig, jpeg.Decode
	}
	header, err := size(bytes.NewReader(upload))
	if err != nil || header.Width < 1 || header.Height < 1 {
		return nil, ErrLogo
	}
	if header.Width > maxLogoSide || header.Height > maxLogoSide {
		return nil, ErrLogoLarge
	}
	picture, err := decode(bytes.NewReader(upload))
	if err != nil {
		return nil, ErrLogo
	}
	return picture, nil
}

// FitPicture returns the size in pixels in which a picture fits. It keeps the proportions and never makes a picture
// larger.
func FitPicture(width, height, maxWidth, maxHeight int) (w, h int) {
	w, h = width, height
	if w > maxWidth {
		w, h = maxWidth, h*maxWidth/w
	}
	if h > maxHeight {
		w, h = w*maxHeight/h, maxHeight
	}
	return max(1, w), max(1, h)
}

func encodePNG(picture image.Image, width, height int) ([]byte, error) {
	scaled := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(scaled, scaled.Bounds(), picture, picture.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, scaled)
	return b.Bytes(), err
}
