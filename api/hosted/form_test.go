package hosted

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

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
		"4222222222222":                      "", // 13 digits
		"":                                   text.NumberMissing,
		" - ":                                text.NumberMissing,
		"4242424242424241":                   text.NumberBad,
		"4242424242424224":                   text.NumberBad, // two digits swapped
		"424242424242424":                    text.NumberShort,
		"42424242424242424":                  text.NumberShort, // 17: Visa has 16 or 19
		"42424242424242424242":               text.NumberLong,
		"3782822463100055":                   text.NumberLong, // Amex has 15
		"424242424242424a":                   text.NumberDigits,
		"４２４２４２４２４２４２４２４２":                     text.NumberDigits, // full width
		"4242424242424242\x00":                 text.NumberDigits,
		"<script>":                             text.NumberDigits,
		strings.Repeat("4", 15_000):            text.NumberLong,
		"' OR 1=1 --4242424242424242":          text.NumberDigits,
		"0000000000000000":                     "", // no known brand: the network decides
		"4242424242424242,4242424242424242":    text.NumberDigits,
		"4242 4242 4242 4242 4242 4242 4242 4": text.NumberLong,
	} {
		digits, fault := parseNumber(typed)
		require.Equal(t, want, fault, typed)
		if want == "" {
			require.True(t, isDigits(digits))
		}
	}
}

func TestLuhn(t *testing.T) {
	t.Parallel()
	require.True(t, luhn("79927398713")) // ISO/IEC 7812-1's customary example
	for _, last := range "012456789" {
		require.False(t, luhn("7992739871"+string(last)))
	}
	require.False(t, luhn(""))
}

func TestParseExp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.February, 28, 23, 59, 0, 0, time.UTC)
	for typed, want := range map[string]struct {
		month, year int
		fault       string
	}{
		"02/26":                {2, 2026, ""}, // good until the month has ended
		"03/26":                {3, 2026, ""},
		"3/26":                 {3, 2026, ""},
		"03 / 26":              {3, 2026, ""},
		"03/2026":              {3, 2026, ""},
		"0326":                 {3, 2026, ""},
		"032026":               {3, 2026, ""},
		"03-26":                {3, 2026, ""},
		"03 26":                {3, 2026, ""},
		" 12/55 ":              {12, 2055, ""},
		"01/56":                {1, 2056, ""},
		"01/26":                {1, 2026, text.ExpPast},
		"12/25":                {12, 2025, text.ExpPast},
		"12/1999":              {12, 1999, text.ExpPast},
		"":                     {0, 0, text.ExpMissing},
		"13/30":                {0, 0, text.ExpMonth},
		"00/30":                {0, 0, text.ExpMonth},
		"01/57":                {0, 0, text.ExpFar},
		"01/9999":              {0, 0, text.ExpFar},
		"3/6":                  {0, 0, text.ExpFormat},
		"326":                  {0, 0, text.ExpFormat},
		"03/26/30":             {0, 0, text.ExpFormat},
		"ab/cd":                {0, 0, text.ExpFormat},
		"-3/26":                {3, 2026, ""},
		"+3/26":                {0, 0, text.ExpFormat},
		"٠٣/٢٦":                {0, 0, text.ExpFormat},
		"4242424242424242":     {0, 0, text.ExpFormat},
		"<b>03/26":             {0, 0, text.ExpFormat},
		strings.Repeat("/", 9): {0, 0, text.ExpFormat},
	} {
		month, year, fault := parseExp(typed, now)
		require.Equal(t, want.fault, fault, typed)
		require.Equal(t, [2]int{want.month, want.year}, [2]int{month, year}, typed)
	}
}

func TestParseExp_CardIsGoodUntilItsMonthHasEndedEverywhere(t *testing.T) {
	t.Parallel()
	over := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) // midnight at UTC-12
	_, _, fault := parseExp("02/26", over.Add(-time.Second))
	require.Empty(t, fault)
	_, _, fault = parseExp("02/26", over)
	require.Equal(t, text.ExpPast, fault)
	_, _, fault = parseExp("12/26", time.Date(2027, time.January, 1, 11, 59, 0, 0, time.UTC))
	require.Empty(t, fault)
	_, _, fault = parseExp("12/26", time.Date(2027, time.January, 1, 12, 0, 0, 0, time.UTC))
	require.Equal(t, text.ExpPast, fault)
}

func TestParseCVC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, number, fault string }{
		{"123", "4242424242424242", ""},
		{" 000 ", "4242424242424242", ""},
		{"1234", "4242424242424242", text.CVCThree},
		{"12", "4242424242424242", text.CVCThree},
		{"12a", "4242424242424242", text.CVCThree},
		{"1234", "378282246310005", ""},
		{"123", "378282246310005", text.CVCFour},
		{"123", "9999", ""},
		{"1234", "", ""},
		{"12345", "", text.CVCEither},
		{"", "4242424242424242", text.CVCMissing},
		{"١٢٣", "4242424242424242", text.CVCThree},
	} {
		_, fault := parseCVC(c.typed, brandOf(c.number))
		require.Equal(t, c.fault, fault, c)
	}
}

func TestParseEmail(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"ada@example.com":                  "",
		" ada@example.com ":                "",
		"a+b.c@mail.example.co.uk":         "",
		"ada@localhost":                    text.EmailBad,
		"":                                 text.EmailMissing,
		"ada":                              text.EmailBad,
		"ada@":                             text.EmailBad,
		"@example.com":                     text.EmailBad,
		"Ada <ada@example.com>":            text.EmailBad,
		"ada@example.com, eve@example.com": text.EmailBad,
		"ada@exam\nple.com":                text.EmailBad,
		"ada@example.com\r\nBcc: eve@example.com": text.EmailBad,
		"ada\x00@example.com":                     text.EmailBad,
		"\xff@example.com":                        text.EmailBad,
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 61) + strings.Repeat("."+strings.Repeat("b", 61), 2) + ".com": "",             // 254
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 62) + strings.Repeat("."+strings.Repeat("b", 61), 2) + ".com": text.EmailLong, // 255
		"4242424242424242":                    text.EmailCard,
		"4242 4242-4242 4242@example.com":     text.EmailCard,
		"x4242424242424242y@example.com":      text.EmailCard,
		"order-20260228@example.com":          "",
		strings.Repeat("4", 5000) + "@b.com":  text.EmailCard,
		"\"<script>alert(1)</script>\"@b.com": text.EmailBad,
	} {
		email, fault := parseEmail(typed)
		require.Equal(t, want, fault, typed)
		if fault == text.EmailCard {
			require.Empty(t, email)
		}
	}
}

func TestParseForm_ShowsTheExpiryOnlyAsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC)
	card, shown := parseForm(url.Values{
		fieldCardNumber: {"4242 4242 4242 4242"}, fieldExp: {"4/2030"}, fieldCVC: {"123"}, fieldEmail: {"ada@example.com"},
	}, now)
	require.Empty(t, shown.Faults.First())
	require.Equal(t, "04 / 30", shown.Exp)
	require.Equal(t, []any{"4242424242424242", 4, 2030, "123"}, []any{card.Number, card.ExpMonth, card.ExpYear, card.CVC})

	_, shown = parseForm(url.Values{fieldExp: {"4242424242424242"}}, now)
	require.Empty(t, shown.Exp)
	require.Equal(t, faults{text.NumberMissing, text.ExpFormat, text.CVCMissing, text.EmailMissing}, shown.Faults)
}

func TestFormatAmount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   checkout.Amount
		currency checkout.Currency
		want     string
	}{
		{1050, checkout.USD, "$10.50"},
		{1050, checkout.EUR, "€10.50"},
		{50, checkout.GBP, "£0.50"},
		{100_000, checkout.CAD, "CA$1,000.00"},
		{99_999_999, checkout.AUD, "A$999,999.99"},
		{123_456_789_00, checkout.USD, "$123,456,789.00"},
		{100, "XXX", "XXX\u00a01.00"},
	} {
		require.Equal(t, c.want, formatAmount(c.amount, c.currency))
	}
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
