package storage_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// picture returns a picture of width × height pixels, of one color or, with noise, all different.
func picture(width, height int, noise bool) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range p.Pix {
		p.Pix[i] = 0xff
		if noise {
			p.Pix[i] = byte(rand.N(256))
		}
	}
	return p
}

func pngOf(t *testing.T, p image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, p))
	return b.Bytes()
}

func jpegOf(t *testing.T, p image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, p, nil))
	return b.Bytes()
}

func TestSetBrand_LinksOfTheFooter(t *testing.T) {
	f := newFixture(t)
	brand := func() people.Brand { return must.Get(f.People.Brand(t.Context(), f.merchant.ID))(t) }
	stored := func() people.Contact { return brand().Contact }
	set := func(c people.Contact, was *people.Brand) error {
		return f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Contact: &c, Was: was})
	}
	first := people.Contact{Support: "help@shop.example", TermsURL: "https://shop.example/terms", PrivacyURL: "https://shop.example/privacy"}
	require.NoError(t, set(first, nil))
	require.Equal(t, first, stored())
	color := "#ABC"
	require.NoError(t, f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Color: &color, Was: &people.Brand{}}))
	require.Equal(t, first, stored(), "nil leaves them")
	require.Equal(t, "#aabbcc", brand().Color)

	// Two people had the form open. Each changes another field.
	seen := people.Brand{Contact: first}
	require.NoError(t, set(people.Contact{Support: "https://shop.example/help", TermsURL: first.TermsURL, PrivacyURL: first.PrivacyURL}, &seen))
	require.NoError(t, set(people.Contact{Support: first.Support, TermsURL: first.TermsURL}, &seen))
	require.Equal(t, people.Contact{Support: "https://shop.example/help", TermsURL: first.TermsURL}, stored())
	conflict := new(pg.ChangedError)
	require.ErrorAs(t, set(people.Contact{Support: "other@shop.example", TermsURL: first.TermsURL, PrivacyURL: first.PrivacyURL}, &seen), &conflict)
	require.Equal(t, []string{"support"}, conflict.Fields)

	for _, c := range []struct {
		field, text string
	}{
		{"support", "help"},
		{"support", "http://shop.example"},
		{"support", "javascript:alert(1)//@shop.example"},
		{"terms_url", "help@shop.example"},
		{"terms_url", "http://shop.example"},
		{"privacy_url", "javascript:alert(1)"},
		{"privacy_url", "https://me:secret@shop.example"},
		{"privacy_url", "https://shop.example/" + strings.Repeat("a", 2048)},
	} {
		typed := people.Contact{}
		*typed.Field(c.field) = c.text
		wrong := new(people.ContactError)
		require.ErrorAs(t, set(typed, nil), &wrong, c.text)
		require.Equal(t, c.field, wrong.Field)
	}
}

func TestSetBrand_Refuses(t *testing.T) {
	f := newFixture(t)
	for _, c := range []string{"red", "#12", "#12345", "#1234567", "123456", "#12345g", "#123456;}", "url(x)"} {
		require.ErrorIs(t, f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Color: &c}), people.ErrColor, c)
	}
	for _, logo := range [][]byte{[]byte("<svg/>"), jpegOf(t, picture(2, 2, false)), append(pngOf(t, picture(1, 1, false)), make([]byte, 128<<10)...)} {
		require.ErrorIs(t, f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Logo: &logo}), people.ErrLogo)
	}
	black := "#000000"
	require.ErrorIs(t, f.People.SetBrand(t.Context(), checkout.NewID(checkout.PrefixMerchant), people.BrandChange{Color: &black}), checkout.ErrNotFound)
	require.ErrorIs(t, must.Err(f.People.Brand(t.Context(), checkout.NewID(checkout.PrefixMerchant))), checkout.ErrNotFound)
}

func TestEncodeLogo_FitsThePageAndTheTableOrIsRefused(t *testing.T) {
	t.Parallel()
	var animation bytes.Buffer
	require.NoError(t, gif.Encode(&animation, picture(2, 2, false), nil))
	// 100,000 × 100,000 pixels in a few bytes: EncodeLogo must not decode them.
	bomb := pngOf(t, picture(1, 1, false))
	binary.BigEndian.PutUint32(bomb[16:], 100_000)
	binary.BigEndian.PutUint32(bomb[20:], 100_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	whole := pngOf(t, picture(8, 8, true))
	for name, c := range map[string]struct {
		upload        []byte
		width, height int // 0 for any
		refused       error
	}{
		"small stays as it is":     {pngOf(t, picture(30, 20, false)), 30, 20, nil},
		"wide":                     {pngOf(t, picture(1000, 50, false)), 600, 30, nil},
		"high":                     {jpegOf(t, picture(50, 1000, false)), 6, 132, nil},
		"one line":                 {pngOf(t, picture(1000, 1, false)), 600, 1, nil},
		"the largest":              {jpegOf(t, picture(1000, 1000, false)), 132, 132, nil},
		"noise is made smaller":    {pngOf(t, picture(600, 132, true)), 0, 0, nil},
		"gray, with other modes":   {jpegOf(t, image.NewGray(image.Rect(0, 0, 9, 9))), 9, 9, nil},
		"a palette":                {pngOf(t, image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black})), 9, 9, nil},
		"bounds that begin inside": {pngOf(t, picture(30, 20, false).SubImage(image.Rect(5, 5, 15, 15))), 10, 10, nil},
		"nothing":                  {nil, 0, 0, people.ErrLogo},
		"text":                     {[]byte("logo"), 0, 0, people.ErrLogo},
		"svg":                      {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), 0, 0, people.ErrLogo},
		"gif":                      {animation.Bytes(), 0, 0, people.ErrLogo},
		"cut off":                  {whole[:len(whole)-40], 0, 0, people.ErrLogo},
		"JPEG's name":              {[]byte{0xff, 0xd8, 0xff, 0xe0, 1}, 0, 0, people.ErrLogo},
		"too wide":                 {pngOf(t, picture(1001, 1, false)), 0, 0, people.ErrLogoLarge},
		"too high":                 {jpegOf(t, picture(1, 1001, false)), 0, 0, people.ErrLogoLarge},
		"a bomb":                   {bomb, 0, 0, people.ErrLogoLarge},
		"over 1 MiB":               {bytes.Repeat([]byte("a"), 1<<20+1), 0, 0, people.ErrLogoLarge},
	} {
		got, err := people.EncodeLogo(bytes.NewReader(c.upload))
		require.ErrorIs(t, err, c.refused, name)
		if c.refused == nil {
			require.LessOrEqual(t, len(got), 128<<10, name)
			size := must.Get(png.DecodeConfig(bytes.NewReader(got)))(t)
			require.Contains(t, [][2]int{{0, 0}, {size.Width, size.Height}}, [2]int{c.width, c.height}, name)
		}
	}
}

func TestEncodeLogo_KeepsPixelsOnly(t *testing.T) {
	t.Parallel()
	upload := pngOf(t, picture(8, 8, false))
	const secret = "GPS 52.5200 13.4050 <script>alert(1)</script>"
	at := len(upload) - 12 // just before IEND
	upload = append(append(append([]byte(nil), upload[:at]...), textChunk(secret)...), upload[at:]...)
	_, err := png.Decode(bytes.NewReader(upload))
	require.NoError(t, err, "the upload is a PNG")
	got := must.Get(people.EncodeLogo(bytes.NewReader(append(upload, "<?php trailing"...))))(t)
	require.NotContains(t, string(got), "GPS")
	require.NotContains(t, string(got), "php")
}

// textChunk returns a comment of a PNG.
func textChunk(text string) []byte {
	body := []byte("tEXt" + "Comment\x00" + text)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	return binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE(body))
}
