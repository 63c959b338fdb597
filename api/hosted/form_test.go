package hosted

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// now is a quiet day.
var now = time.Date(2026, time.February, 28, 23, 59, 0, 0, time.UTC)

// parsed parses a good form with one other field. It returns what was read of the field, and its fault.
func parsed(field, typed string, others ...string) (read, message string) {
	values := goodCard()
	for pair := range slices.Chunk(append(others, field, typed), 2) {
		values.Set(pair[0], pair[1])
	}
	card, shown := parseForm(&english.Texts, values, now)
	for _, f := range shown.Faults.All() {
		if f.Field == field {
			message = f.Message
		}
	}
	return map[string]string{
		fieldCardNumber: card.Number, fieldExp: shown.Exp, fieldCVC: card.CVC, fieldEmail: shown.Email, fieldName: shown.Name,
	}[field], message
}

// What the page refuses is in deploy/proof/e2e/testdata/corpus/page; this table has what it takes, and the rest.
func TestParseForm_EachField(t *testing.T) {
	t.Parallel()
	texts, visa, amex := &english.Texts, "4242424242424242", "378282246310005"
	longest := strings.Repeat("a", 64) + "@" + strings.Repeat("b", 61) + strings.Repeat("."+strings.Repeat("b", 61), 2) + ".com" // 254
	for _, c := range []struct{ field, typed, read, fault string }{
		{fieldCardNumber, visa, visa, ""},
		{fieldCardNumber, "4242 4242 4242 4242", visa, ""},
		{fieldCardNumber, " 4242-4242-4242-4242 ", visa, ""},
		{fieldCardNumber, "4242\u00a04242\u202f4242\u20094242", visa, ""},
		{fieldCardNumber, "４２４２　４２４２　４２４２　４２４２", visa, ""}, // from a Japanese keyboard
		{fieldCardNumber, "5555555555554444", "5555555555554444", ""},
		{fieldCardNumber, amex, amex, ""},
		{fieldCardNumber, "6011111111111117", "6011111111111117", ""},
		{fieldCardNumber, "3056930009020004", "3056930009020004", ""},
		{fieldCardNumber, "30569309025904", "30569309025904", ""},
		{fieldCardNumber, "3566002020360505", "3566002020360505", ""},
		{fieldCardNumber, "6200000000000005", "6200000000000005", ""},
		{fieldCardNumber, "4222222222222", "4222222222222", ""},                        // 13 digits
		{fieldCardNumber, "42424242424242424", "42424242424242424", texts.NumberShort}, // 17: Visa has 16 or 19
		{fieldCardNumber, "0000000000000000", "0000000000000000", ""},                  // no known brand: the network decides

		{fieldExp, "02/26", "02 / 26", ""}, // good until the month has ended
		{fieldExp, "03/26", "03 / 26", ""},
		{fieldExp, "3/26", "03 / 26", ""},
		{fieldExp, "03 / 26", "03 / 26", ""},
		{fieldExp, "03/2026", "03 / 26", ""},
		{fieldExp, "0326", "03 / 26", ""},
		{fieldExp, "032026", "03 / 26", ""},
		{fieldExp, "03-26", "03 / 26", ""},
		{fieldExp, "03 26", "03 / 26", ""},
		{fieldExp, "-3/26", "03 / 26", ""},
		{fieldExp, "１／４０", "01 / 40", ""},
		{fieldExp, " 12/55 ", "12 / 55", ""},
		{fieldExp, "01/56", "01 / 56", ""},
		{fieldExp, "01/26", "01 / 26", texts.ExpPast},
		{fieldExp, "12/25", "12 / 25", texts.ExpPast},
		{fieldExp, "01/57", "", texts.ExpFar},
		{fieldExp, "3/6", "", texts.ExpFormat},
		{fieldExp, "326", "", texts.ExpFormat},
		{fieldExp, "+3/26", "", texts.ExpFormat},
		{fieldExp, "٠٣/٢٦", "", texts.ExpFormat},
		{fieldExp, visa, "", texts.ExpFormat}, // the wrong field: not shown again

		{fieldCVC, " 000 ", "000", ""},
		{fieldCVC, "１２３", "123", ""},

		{fieldEmail, " ada@example.com ", "ada@example.com", ""},
		{fieldEmail, "a+b.c@mail.example.co.uk", "a+b.c@mail.example.co.uk", ""},
		{fieldEmail, "ada@", "ada@", texts.EmailBad},
		{fieldEmail, "@example.com", "@example.com", texts.EmailBad},
		{fieldEmail, longest, longest, ""},
		{fieldEmail, "b" + longest, "", texts.EmailLong},
		{fieldEmail, "4242 4242-4242 4242@example.com", "", texts.EmailCard},
		{fieldEmail, "x4242424242424242y@example.com", "", texts.EmailCard},
		{fieldEmail, "order-20260228@example.com", "order-20260228@example.com", ""},
		{fieldEmail, strings.Repeat("4", 5000) + "@b.com", "", texts.EmailCard},

		{fieldName, "Ada Lovelace", "Ada Lovelace", ""},
		{fieldName, " José O’Neill-Ødegård ", "José O’Neill-Ødegård", ""},
		{fieldName, "王小明", "王小明", ""},
		{fieldName, "", "", texts.NameMissing},
		{fieldName, "  ", "", texts.NameMissing},
		{fieldName, "4242 4242 4242 4242", "", texts.NameCard},
		{fieldName, "４２４２４２４２４２４２４２４２", "", texts.NameCard},
		{fieldName, "Ada\nLovelace", "", texts.NameBad},
		{fieldName, "\u202eadA", "", texts.NameBad},
		{fieldName, "Ada\u2028Byron", "", texts.NameBad},
		{fieldName, "\xff", "", texts.NameBad},
		{fieldName, strings.Repeat("é", 100), strings.Repeat("é", 100), ""},
		{fieldName, strings.Repeat("é", 101), "", texts.NameLong},
		{fieldName, "<script>alert(1)</script>", "<script>alert(1)</script>", ""}, // text like any other
	} {
		read, message := parsed(c.field, c.typed)
		require.Equal(t, c.fault, message, "%s %s", c.field, c.typed)
		require.Equal(t, c.read, read, "%s %s", c.field, c.typed)
	}
	for _, c := range []struct{ number, typed, fault string }{
		{amex, "1234", ""}, {"9999", "123", ""}, {"", "1234", ""}, {"", "12345", texts.CVCEither},
	} {
		_, message := parsed(fieldCVC, c.typed, fieldCardNumber, c.number)
		require.Equal(t, c.fault, message, c)
	}
}

func TestParseExp_CardIsGoodUntilItsMonthHasEndedEverywhere(t *testing.T) {
	t.Parallel()
	for typed, over := range map[string]time.Time{ // midnight at UTC-12
		"02/26": time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC), "12/26": time.Date(2027, time.January, 1, 12, 0, 0, 0, time.UTC),
	} {
		_, _, fault := parseExp(&english.Texts, typed, over.Add(-time.Second))
		require.Empty(t, fault)
		_, _, fault = parseExp(&english.Texts, typed, over)
		require.Equal(t, english.Texts.ExpPast, fault)
	}
}

func TestParseForm_ReadsACardAndAsksForANameOnlyWhenTheFormHasTheField(t *testing.T) {
	t.Parallel()
	card, shown := parseForm(&english.Texts, goodCard(), now)
	require.Empty(t, shown.Faults.All())
	require.Equal(t, "4242424242424242 12/2040 987", fmt.Sprintf("%s %d/%d %s", card.Number, card.ExpMonth, card.ExpYear, card.CVC))

	_, shown = parseForm(&english.Texts, url.Values{}, now)
	require.Equal(t, faults{CardNumber: english.Texts.NumberMissing, Exp: english.Texts.ExpMissing, CVC: english.Texts.CVCMissing, Email: english.Texts.EmailMissing}, shown.Faults)

	named := goodCard()
	named.Set(fieldName, "Ada")
	card, _ = parseForm(&english.Texts, named, now)
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
