package hosted

import (
	"fmt"
	"strings"

	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Receipt writes the mail to the customer of a session that has a transaction, in plain text. language is a tag of
// checkout.Locales; without a known one the session's counts, else English. Of the card the mail has the brand
// and the last four digits. What the session's creator wrote is text without links.
func Receipt(session checkout.Session, b people.Brand, language string) (subject, text string) {
	l := languageNamed(language)
	if l == nil && session.Locale != nil {
		l = languageNamed(string(*session.Locale))
	}
	if l == nil {
		l = languages[0]
	}
	t, shop, paid := &l.Texts, merchant.MailText(b.Name), session.Transaction()
	subject = fmt.Sprintf(t.ReceiptSubject, shop)
	first := fmt.Sprintf(t.CompletedText, shop)
	if !session.Mode.Live() {
		subject, first = "["+t.TestBadge+"] "+subject, t.TestLead+"\n\n"+first
	}

	facts, links := &strings.Builder{}, &strings.Builder{}
	line := func(to *strings.Builder, name, value string) {
		if value != "" {
			fmt.Fprintf(to, "%s: %s\n", name, value)
		}
	}
	for _, i := range session.LineItems {
		shown := newItem(l.Money, i, session.Currency)
		shown.Name = merchant.MailText(shown.Name)
		if shown.Each != "" {
			shown.Name += " (" + shown.Each + ")"
		}
		line(facts, shown.Name, shown.Price)
	}
	if session.Description != nil {
		line(facts, t.Description, merchant.MailText(*session.Description))
	}
	line(facts, t.AmountPaid, l.Money.amount(session.Amount, session.Currency))
	line(facts, t.PaidTo, shop)
	if session.OrderID != nil {
		line(facts, t.Reference, merchant.MailText(*session.OrderID))
	}
	line(facts, t.PaidWith, cardLabel(t, paid.PaymentMethod))
	if paid.CompletedAt != nil {
		line(facts, t.PaidAt, t.date(*paid.CompletedAt))
	}
	line(facts, t.PaymentReference, paid.ID)

	line(links, t.Support, b.Support)
	line(links, t.Terms, b.TermsURL)
	line(links, t.PrivacyPolicy, b.PrivacyURL)
	if links.Len() > 0 {
		links.WriteString("\n")
	}
	return subject, first + "\n\n" + facts.String() + "\n" + links.String() + t.ReceiptWhy + "\n"
}
