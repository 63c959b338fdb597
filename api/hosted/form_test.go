package hosted

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the page refuses is in deploy/proof/e2e/testdata/corpus/page; the tables below have what it takes, and the rest.
func TestParseNumber(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{ // fault; "" is good
		"4242424242424242":                   "",
		"4242 4242 4242 4242":                "",
		" 4242-4242-4242-4242 ":              "",
		"4242\u00a04242\u202f4242\u20094242": "",
		"5555555555554444":                   "",
		"378282246310005":                    "",
		"6011111111111117":                   "",
		"3056930009020004":                   "",
		"30569309025904":                     "",
		"3566002020360505":                   "",
		"6200000000000005":                   "",
		"4222222222222":                      "",                        // 13 digits
		"42424242424242424":                  english.Texts.NumberShort, // 17: Visa has 16 or 19
		"４２４２４２４２４２４２４２４２": english.Texts.NumberDigits, // full width
		"0000000000000000": "", // no known brand: the network decides
	} {
		digits, fault := parseNumber(&english.Texts, typed)
		require.Equal(t, want, fault, typed)
		if want == "" {
			require.True(t, isDigits(digits))
		}
	}
}

// TestParseForm_WideDigits: a Japanese keyboard types them.
func TestParseForm_WideDigits(t *testing.T) {
	t.Parallel()
	card, shown := parseForm(&english.Texts, url.Values{
		fieldCardNumber: {"４２４２　４２４２　４２４２　４２４２"}, fieldExp: {"１／４０"}, fieldCVC: {"１２３"}, fieldEmail: {"a@example.com"},
	}, time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC))
	require.Empty(t, shown.Faults.First())
	require.Equal(t, "4242424242424242 1/2040 123", fmt.Sprintf("%s %d/%d %s", card.Number, card.ExpMonth, card.ExpYear, card.CVC))

	_, fault := parseName(&english.Texts, "４２４２４２４２４２４２４２４２")
	require.Equal(t, english.Texts.NameCard, fault)
}

func TestParseExp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.February, 28, 23, 59, 0, 0, time.UTC)
	for typed, want := range map[string]struct {
		month, year int
		fault       string
	}{
		"02/26":   {2, 2026, ""}, // good until the month has ended
		"03/26":   {3, 2026, ""},
		"3/26":    {3, 2026, ""},
		"03 / 26": {3, 2026, ""},
		"03/2026": {3, 2026, ""},
		"0326":    {3, 2026, ""},
		"032026":  {3, 2026, ""},
		"03-26":   {3, 2026, ""},
		"03 26":   {3, 2026, ""},
		" 12/55 ": {12, 2055, ""},
		"01/56":   {1, 2056, ""},
		"01/26":   {1, 2026, english.Texts.ExpPast},
		"12/25":   {12, 2025, english.Texts.ExpPast},
		"01/57":   {0, 0, english.Texts.ExpFar},
		"3/6":     {0, 0, english.Texts.ExpFormat},
		"326":     {0, 0, english.Texts.ExpFormat},
		"-3/26":   {3, 2026, ""},
		"+3/26":   {0, 0, english.Texts.ExpFormat},
		"٠٣/٢٦":   {0, 0, english.Texts.ExpFormat},
	} {
		month, year, fault := parseExp(&english.Texts, typed, now)
		require.Equal(t, want.fault, fault, typed)
		require.Equal(t, [2]int{want.month, want.year}, [2]int{month, year}, typed)
	}
}

func TestParseExp_CardIsGoodUntilItsMonthHasEndedEverywhere(t *testing.T) {
	t.Parallel()
	over := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) // midnight at UTC-12
	_, _, fault := parseExp(&english.Texts, "02/26", over.Add(-time.Second))
	require.Empty(t, fault)
	_, _, fault = parseExp(&english.Texts, "02/26", over)
	require.Equal(t, english.Texts.ExpPast, fault)
	_, _, fault = parseExp(&english.Texts, "12/26", time.Date(2027, time.January, 1, 11, 59, 0, 0, time.UTC))
	require.Empty(t, fault)
	_, _, fault = parseExp(&english.Texts, "12/26", time.Date(2027, time.January, 1, 12, 0, 0, 0, time.UTC))
	require.Equal(t, english.Texts.ExpPast, fault)
}

func TestParseCVC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, number, fault string }{
		{"123", "4242424242424242", ""},
		{" 000 ", "4242424242424242", ""},
		{"1234", "378282246310005", ""},
		{"123", "9999", ""},
		{"1234", "", ""},
		{"12345", "", english.Texts.CVCEither},
	} {
		_, fault := parseCVC(&english.Texts, c.typed, brandOf(c.number))
		require.Equal(t, c.fault, fault, c)
	}
}

func TestParseEmail(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"ada@example.com":          "",
		" ada@example.com ":        "",
		"a+b.c@mail.example.co.uk": "",
		"ada@":                     english.Texts.EmailBad,
		"@example.com":             english.Texts.EmailBad,
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 61) + strings.Repeat("."+strings.Repeat("b", 61), 2) + ".com": "",                      // 254
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 62) + strings.Repeat("."+strings.Repeat("b", 61), 2) + ".com": english.Texts.EmailLong, // 255
		"4242 4242-4242 4242@example.com":    english.Texts.EmailCard,
		"x4242424242424242y@example.com":     english.Texts.EmailCard,
		"order-20260228@example.com":         "",
		strings.Repeat("4", 5000) + "@b.com": english.Texts.EmailCard,
	} {
		email, fault := parseEmail(&english.Texts, typed)
		require.Equal(t, want, fault, typed)
		if fault == english.Texts.EmailCard {
			require.Empty(t, email)
		}
	}
}

func TestParseForm_ShowsTheExpiryOnlyAsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC)
	card, shown := parseForm(&english.Texts, url.Values{
		fieldCardNumber: {"4242 4242 4242 4242"}, fieldExp: {"4/2030"}, fieldCVC: {"123"}, fieldEmail: {"ada@example.com"},
	}, now)
	require.Empty(t, shown.Faults.First())
	require.Equal(t, "04 / 30", shown.Exp)
	require.Equal(t, []any{"4242424242424242", 4, 2030, "123"}, []any{card.Number, card.ExpMonth, card.ExpYear, card.CVC})

	_, shown = parseForm(&english.Texts, url.Values{fieldExp: {"4242424242424242"}}, now)
	require.Empty(t, shown.Exp)
	require.Equal(t, faults{CardNumber: english.Texts.NumberMissing, Exp: english.Texts.ExpFormat, CVC: english.Texts.CVCMissing, Email: english.Texts.EmailMissing}, shown.Faults)
}

func TestParseName(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"Ada Lovelace":              "",
		" José O’Neill-Ødegård ":    "",
		"王小明":                       "",
		"":                          english.Texts.NameMissing,
		"  ":                        english.Texts.NameMissing,
		"4242 4242 4242 4242":       english.Texts.NameCard,
		"Ada\nLovelace":             english.Texts.NameBad,
		"\u202eadA":                 english.Texts.NameBad,
		"Ada\u2028Byron":            english.Texts.NameBad,
		"\xff":                      english.Texts.NameBad,
		strings.Repeat("é", 100):    "",
		strings.Repeat("é", 101):    english.Texts.NameLong,
		"<script>alert(1)</script>": "", // text like any other
	} {
		name, fault := parseName(&english.Texts, typed)
		require.Equal(t, want, fault, typed)
		require.Equal(t, fault == "", name != "", typed)
	}
}

func TestParseForm_ANameIsAskedForOnlyByAFormThatHasTheField(t *testing.T) {
	t.Parallel()
	values := url.Values{fieldCardNumber: {"4242424242424242"}, fieldExp: {"4/2030"}, fieldCVC: {"123"}, fieldEmail: {"ada@example.com"}}
	_, shown := parseForm(&english.Texts, values, time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC))
	require.Empty(t, shown.Faults.First())
	values.Set(fieldName, "")
	_, shown = parseForm(&english.Texts, values, time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC))
	require.Equal(t, "name", shown.Faults.First())
	values.Set(fieldName, "Ada")
	card, _ := parseForm(&english.Texts, values, time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC))
	require.Equal(t, "Ada", card.Name)
}

func TestLinkTo_OnlyWebAddressesAndExactlyAsStored(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{
		"", "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//evil.example", "/relative", `\\evil.example`,
		"vbscript:x", "file:///etc/passwd", "https:evil.example", "https:///evil.example", "ftp://a.example/", " https://a.example",
		"java\nscript:alert(1)", "about:blank", "blob:https://a.example/1",
	} {
		_, ok := linkTo(refused)
		require.False(t, ok, refused)
	}
	for _, address := range []string{
		"https://shop.example/thanks?order=1&x=(a);'b'#c", "http://localhost:3000/ok", "https://shop.example/%2e%2F?q=%zz+ä|",
	} {
		attr, ok := linkTo(address)
		require.True(t, ok, address)
		require.NotContains(t, strings.TrimSuffix(strings.TrimPrefix(string(attr), `href="`), `"`), `"`)
	}
}
