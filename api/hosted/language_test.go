package hosted

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

var english, german, french, spanish = languageNamed("en"), languageNamed("de"), languageNamed("fr"), languageNamed("es")

var placeholder = regexp.MustCompile(`%(\[\d\])?[a-z]`)

// verbs are the placeholders of a text in the order of what is filled in.
func verbs(format string) []string {
	all := placeholder.FindAllString(format, -1)
	if strings.Contains(format, "%[") {
		slices.Sort(all)
		for i := range all {
			all[i] = "%" + all[i][len(all[i])-1:]
		}
	}
	return all
}

func TestLanguages_HaveEveryTextWithTheSamePlaceholders(t *testing.T) {
	t.Parallel()
	files, err := languageFiles.ReadDir("languages")
	require.NoError(t, err)
	require.Len(t, files, len(languages), "each file is a locale of the API")
	want := reflect.ValueOf(english.Texts)
	for _, l := range languages {
		got := reflect.ValueOf(l.Texts)
		for i := range got.NumField() {
			name := l.tag + " " + got.Type().Field(i).Name
			text := got.Field(i).String()
			require.NotEmpty(t, text, name)
			require.Equal(t, verbs(want.Field(i).String()), verbs(text), name)
			require.Equal(t, strings.Count(text, "%"), len(placeholder.FindAllString(text, -1)), name)
			require.Equal(t, strings.TrimSpace(text), text, name)
			if l != english { // merchants read the English failures too
				require.NotContains(t, text, "'", name+": the apostrophe is ’")
			}
		}
		require.Len(t, strings.Fields(l.Texts.Months), 12, l.tag)
		require.Len(t, l.Money.Symbols, len(money.Currencies), l.tag)
	}
}

// A text that is the same in two languages was probably not translated.
func TestLanguages_AreTranslated(t *testing.T) {
	t.Parallel()
	same := []string{"TestCard", "TitleState", "ExpHint", "Date", "PaidAt"}
	want := reflect.ValueOf(english.Texts)
	for _, l := range languages[1:] {
		got := reflect.ValueOf(l.Texts)
		for i := range got.NumField() {
			if name := got.Type().Field(i).Name; !slices.Contains(same, name) {
				require.NotEqual(t, want.Field(i).String(), got.Field(i).String(), l.tag+" "+name)
			}
		}
	}
}

func TestLanguages_SayEveryFailure(t *testing.T) {
	t.Parallel()
	for _, code := range []checkout.FailureCode{
		checkout.FailureCardDeclined, checkout.FailureInsufficientFunds, checkout.FailureExpiredCard, checkout.FailureIncorrectCVC,
		checkout.FailureFraudBlocked, checkout.FailureThreeDSFailed, checkout.FailureThreeDSAbandoned, checkout.FailureProcessingError,
	} {
		require.Equal(t, code.Message(), english.Texts.failure(code))
	}
}

// The amounts are those of Intl.NumberFormat in Node 20 (CLDR 45).
func TestAmount_IsWrittenAsTheLanguageDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in       *language
		amount   money.Amount
		currency money.Currency
		want     string
	}{
		{english, 1050, money.USD, "$10.50"},
		{english, 1050, money.EUR, "€10.50"},
		{english, 50, money.GBP, "£0.50"},
		{english, 123_456, money.CAD, "CA$1,234.56"},
		{english, 99_999_999, money.AUD, "A$999,999.99"},
		{german, 1050, money.EUR, "10,50\u00a0€"},
		{german, 123_456, money.USD, "1.234,56\u00a0$"},
		{german, 12_345_678, money.AUD, "123.456,78\u00a0AU$"},
		{french, 1050, money.EUR, "10,50\u00a0€"},
		{french, 123_456, money.CAD, "1\u202f234,56\u00a0$CA"},
		{french, 12_345_678, money.GBP, "123\u202f456,78\u00a0£GB"},
		{spanish, 123_456, money.EUR, "1234,56\u00a0€"},
		{spanish, 12_345_678, money.USD, "123.456,78\u00a0US$"},
		{spanish, 1050, money.GBP, "10,50\u00a0GBP"},
		{languageNamed("pt"), 123_456, money.EUR, "€\u00a01.234,56"},
		{languageNamed("it"), 123_456, money.EUR, "1234,56\u00a0€"},
		{languageNamed("it"), 12_345_678, money.USD, "123.456,78\u00a0USD"},
		{languageNamed("nl"), 123_456, money.CAD, "C$\u00a01.234,56"},
		{languageNamed("pl"), 123_456, money.EUR, "1234,56\u00a0€"},
		{languageNamed("pl"), 12_345_678, money.GBP, "123\u00a0456,78\u00a0GBP"},
		{languageNamed("sv"), 123_456, money.USD, "1\u00a0234,56\u00a0US$"},
		{languageNamed("ja"), 123_456, money.AUD, "A$1,234.56"},
	} {
		require.Equal(t, c.want, c.in.Money.amount(c.amount, c.currency))
	}
}

func TestDate_IsWrittenAsTheLanguageDoes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 16, 4, 0, 0, time.FixedZone("", 3600))
	for l, want := range map[*language]string{
		english: "1 March 2026, 15:04 UTC", german: "1. März 2026, 15:04 UTC", french: "1 mars 2026, 15:04 UTC", spanish: "1 de marzo de 2026, 15:04 UTC",
		languageNamed("pt"): "1 de março de 2026, 15:04 UTC", languageNamed("it"): "1 marzo 2026, 15:04 UTC",
		languageNamed("nl"): "1 maart 2026, 15:04 UTC", languageNamed("pl"): "1 marca 2026, 15:04 UTC",
		languageNamed("sv"): "1 mars 2026, 15:04 UTC", languageNamed("ja"): "2026年3月1日 15:04 UTC",
	} {
		require.Equal(t, want, l.Texts.date(at))
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]*language{
		"":                              english,
		"de":                            german,
		"de-CH,de;q=0.9,en;q=0.8":       german,
		"en-GB,de;q=0.9":                english,
		"fr-CA;q=0.5, es-MX;q=0.9":      spanish,
		"zh,fr;q=0.4":                   french,
		"zh":                            english,
		"ja-JP,en;q=0.5":                languageNamed("ja"),
		"pt-PT,es;q=0.5":                languageNamed("pt"),
		"pt-BR":                         languageNamed("pt"),
		"nl-BE,fr;q=0.9":                languageNamed("nl"),
		"sv":                            languageNamed("sv"),
		"it-CH":                         languageNamed("it"),
		"pl":                            languageNamed("pl"),
		"*":                             english,
		"de;q=0, fr":                    french,
		"not a header at all;;;":        english,
		strings.Repeat("de-DE,", 5000):  english, // longer than any browser sends
		"<script>alert(1)</script>, de": english,
	} {
		require.Equal(t, want.tag, acceptedLanguage(header).tag, header[:min(len(header), 40)])
	}
}

// ask asks for a page with an Accept-Language header, and with a cookie unless that is "".
func (h *harness) ask(path, header, cookie string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, testURL+path, nil)
	r.Header.Set("Accept-Language", header)
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: "lang", Value: cookie})
	}
	return h.do(r)
}

func TestPage_SpeaksTheCustomersLanguage(t *testing.T) {
	h := newHarness(t)
	h.pay = declines
	id := h.session(func(n *storage.NewSession, _ *merchant.Merchant) { n.Amount, n.Currency = 123_456, money.EUR })
	ask := h.ask
	w := ask("/"+id, "de-AT,en;q=0.5", "")
	require.Equal(t, "de", w.Header().Get("Content-Language"))
	require.Contains(t, w.Header().Values("Vary"), "Accept-Language, Cookie")
	for _, want := range []string{`<html lang="de">`, "1.234,56\u00a0€ zahlen", "Mit Karte zahlen", `aria-current="true">Deutsch<`, `href="/checkout/` + id + `?lang=fr" lang="fr" hreflang="fr"`} {
		require.Contains(t, w.Body.String(), want)
	}
	require.Empty(t, w.Header().Values("Set-Cookie"), "nobody chose")
	require.Contains(t, ask("/"+id, "de", "fr").Body.String(), `<html lang="fr">`, "what was chosen before")
	require.Contains(t, ask("/"+id, "de", "<x>").Body.String(), `<html lang="de">`)

	w = ask("/"+id+"?lang=es", "de", "fr")
	require.Contains(t, w.Body.String(), `<html lang="es">`)
	cookie := w.Result().Cookies()[0]
	require.Equal(t, []any{"lang", "es", "/checkout/", true, true, http.SameSiteLaxMode},
		[]any{cookie.Name, cookie.Value, cookie.Path, cookie.HttpOnly, cookie.Secure, cookie.SameSite})
	w = ask("/"+id+"?lang=tlh", "de", "")
	require.Contains(t, w.Body.String(), `<html lang="de">`)
	require.Empty(t, w.Header().Values("Set-Cookie"))

	for _, path := range []string{"/nothing", "/" + checkout.NewID(checkout.PrefixSession)} {
		require.Contains(t, ask(path, "fr", "").Body.String(), french.Texts.UnknownTitle)
	}
	h.post("/"+id, goodCard())
	require.Contains(t, ask("/"+id, "es", "").Body.String(), spanish.Texts.InsufficientFunds+" Le quedan 2 intentos.")
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 15, 4, 0, 0, time.UTC)
	about, order, locale := "Spring\norder, see https://evil.example/pay", "A-7", checkout.Locale("fr")
	session := checkout.Session{
		Ref:    checkout.Ref{Owner: checkout.Owner{Mode: checkout.ModeLive}},
		Amount: 123_456, Currency: money.EUR, Description: &about, OrderID: &order, Locale: &locale,
		LineItems: []checkout.LineItem{{Name: "Bean\u202es", Quantity: 2, UnitAmount: 61_728}},
		Transactions: []checkout.Transaction{{Ref: checkout.Ref{ID: "txn_1"}, CompletedAt: &at,
			PaymentMethod: checkout.PaymentMethod{Brand: "visa", Last4: "4242", ExpMonth: 7, ExpYear: 2031}}},
	}
	brand := people.Brand{Name: "Café\r\nBcc: x@evil.example", Contact: people.Contact{Support: "help@shop.example", TermsURL: "https://shop.example/terms"}}
	subject, text := Receipt(session, brand, "de")
	require.Equal(t, "Ihr Zahlungsbeleg von Café Bcc: x@evil. example", subject, "one line")
	require.Equal(t, strings.ReplaceAll(`Vielen Dank. Café Bcc: x@evil. example hat Ihre Zahlung erhalten.

Bean s (2 × 617,28~€): 1.234,56~€
Verwendungszweck: Spring order, see https: //evil. example/pay
Gezahlter Betrag: 1.234,56~€
Empfänger: Café Bcc: x@evil. example
Bestellnummer: A-7
Karte: Visa •••• 4242
Datum: 1. März 2026, 15:04 UTC
Zahlungsreferenz: txn_1

Kontakt: help@shop.example
AGB: https://shop.example/terms

Sie erhalten diese E-Mail, weil Sie diese Adresse bei der Zahlung angegeben haben.
`, "~", "\u00a0"), text)
	subject, _ = Receipt(session, brand, "")
	require.Contains(t, subject, "Votre reçu de", "the session's")
	session.Mode = checkout.ModeTest
	subject, text = Receipt(session, people.Brand{Name: "Shop"}, "ja")
	require.Equal(t, "[テストモード] Shopでのお支払いの確認", subject)
	require.True(t, strings.HasPrefix(text, "実際のカードには請求されません。\n\n"))
	require.NotContains(t, text, "\n\n\n")
	session.Locale = nil
	subject, _ = Receipt(session, brand, "tlh")
	require.Contains(t, subject, "Your receipt from")
}
