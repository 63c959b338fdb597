package hosted

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

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
