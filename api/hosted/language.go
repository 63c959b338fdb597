package hosted

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// language is one language of the page. languages/{tag}.json has its data.
type language struct {
	tag    string // BCP 47; also the value of the parameter and the cookie
	Name   string // in the language itself
	Money  amountRules
	Texts  texts
	script string // messages for the scripts as JSON
}

//go:embed languages/*.json
var languageFiles embed.FS

// languages are in the order of the page's switch. A customer whose language is
// missing gets the first one.
var languages = func() (all []*language) {
	for _, tag := range checkout.Locales {
		all = append(all, loadLanguage(string(tag)))
	}
	return all
}()

// loadLanguage panics when the file is missing or has a name that no field has. Tests find an empty text.
func loadLanguage(tag string) *language {
	file, err := languageFiles.ReadFile("languages/" + tag + ".json")
	if err != nil {
		panic(err)
	}
	l := &language{tag: tag}
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		panic("languages/" + tag + ".json: " + err.Error())
	}
	l.script = scriptText(&l.Texts)
	return l
}

// matcher finds a close language, such as Spanish for Catalan.
var matcher = func() xlanguage.Matcher {
	var tags []xlanguage.Tag
	for _, l := range languages {
		tags = append(tags, xlanguage.MustParse(l.tag))
	}
	return xlanguage.NewMatcher(tags)
}()

// paramLanguage is the query parameter that chooses a language. languageCookie remembers it.
const (
	languageCookie = "lang"
	paramLanguage  = "lang"
	languageMaxAge = 365 * 24 * 60 * 60 // seconds
)

type languageKey struct{}

// languageOf returns the language for the answer to a request.
func languageOf(r *http.Request) *language {
	if l, ok := r.Context().Value(languageKey{}).(*language); ok {
		return l
	}
	return languages[0]
}

// textsOf returns the texts of languageOf.
func textsOf(r *http.Request) *texts { return &languageOf(r).Texts }

// inLanguage chooses the language of every answer. The parameter comes first and is remembered in
// the cookie. The cookie comes second, Accept-Language last. See inLocale too.
func (s *server) inLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chosen, remember := chosenLanguage(r)
		if remember {
			http.SetCookie(
				w,
				&http.Cookie{ //nolint:gosec // Secure over https; only a developer's own computer uses http
					Name: languageCookie, Value: chosen.tag, Path: s.base + "/", MaxAge: languageMaxAge,
					HttpOnly: true, Secure: strings.HasPrefix(s.origin, "https:"), SameSite: http.SameSiteLaxMode,
				},
			)
		}

		if chosen == nil {
			chosen = acceptedLanguage(r.Header.Get("Accept-Language"))
		}
		next.ServeHTTP(w, withLanguage(r, chosen))
	})
}

func withLanguage(r *http.Request, l *language) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), languageKey{}, l))
}

// chosenLanguage returns the language that the customer has chosen, nil without one. remember reports whether that
// was just now.
func chosenLanguage(r *http.Request) (chosen *language, remember bool) {
	if chosen = languageNamed(r.URL.Query().Get(paramLanguage)); chosen != nil {
		return chosen, true
	}
	if cookie, err := r.Cookie(languageCookie); err == nil {
		chosen = languageNamed(cookie.Value)
	}
	return chosen, false
}

// inLocale answers in the session's language, unless the customer has chosen one.
func inLocale(r *http.Request, locale checkout.Locale) *http.Request {
	l := languageNamed(string(locale))
	if chosen, _ := chosenLanguage(r); chosen != nil || l == nil {
		return r
	}
	return withLanguage(r, l)
}

// languageNamed returns the language with exactly this tag, nil without one.
func languageNamed(tag string) *language {
	for _, l := range languages {
		if l.tag == tag {
			return l
		}
	}
	return nil
}

// acceptedLanguage returns the language that fits an Accept-Language header best.
func acceptedLanguage(header string) *language {
	tags, _, err := xlanguage.ParseAcceptLanguage(header)
	if err != nil {
		return languages[0]
	}
	_, i, _ := matcher.Match(tags...)
	return languages[i]
}

// choice is one entry of the language switch.
type choice struct {
	Tag, Name, Address string
	Chosen             bool
}

// choices returns the links to the same page in every language.
func choices(here *language, page string, query url.Values) []choice {
	var all []choice
	for _, l := range languages {
		q := url.Values{paramLanguage: {l.tag}}
		for _, kept := range []string{paramPayment, paramProcessing, paramOvertaken, paramNotPossible, paramColor} {
			if query.Has(kept) {
				q[kept] = query[kept]
			}
		}
		all = append(all, choice{Tag: l.tag, Name: l.Name, Address: page + "?" + q.Encode(), Chosen: l == here})
	}
	return all
}

// scriptText returns the messages of the scripts as JSON, so that all texts stay in one place.
func scriptText(t *texts) string {
	b, err := json.Marshal(map[string]string{
		"paying": t.Paying, "expired": t.ExpiredHeading, "fiveMinutes": t.FiveMinutes, "oneMinute": t.OneMinute,
		"offline": t.OfflineHeading, "offlineText": t.OfflineText,
		"fix":           t.FixHeading,
		"numberMissing": t.NumberMissing, "numberDigits": t.NumberDigits, "numberShort": t.NumberShort,
		"numberLong": t.NumberLong, "numberBad": t.NumberBad,
		"expMissing": t.ExpMissing, "expFormat": t.ExpFormat, "expMonth": t.ExpMonth, "expPast": t.ExpPast,
		"expFar":     t.ExpFar,
		"cvcMissing": t.CVCMissing, "cvcThree": t.CVCThree, "cvcFour": t.CVCFour, "cvcEither": t.CVCEither,
		"cvcHint": t.CVCHint, "cvcHintAmex": t.CVCHintAmex,
		"emailMissing": t.EmailMissing, "emailBad": t.EmailBad, "nameMissing": t.NameMissing, "cardFault": t.CardFault,
	})
	if err != nil {
		panic(err) // a map of strings always has a JSON form
	}
	return string(b)
}

// amountRules holds a language's rules for amounts. Source: Unicode CLDR.
type amountRules struct {
	Format  string // takes the symbol and the number
	Point   string
	Group   string
	From    int // shortest number of digits that is grouped
	Symbols map[money.Currency]string
}

// amount formats an amount: "CA$1,234.50", "1.234,50 CA$".
func (m amountRules) amount(a money.Amount, c money.Currency) string {
	symbol, ok := m.Symbols[c]
	if !ok {
		symbol = string(c) + "\u00a0"
	}
	whole, cents, _ := strings.Cut(a.String(), ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 && len(whole) >= m.From {
			b.WriteString(m.Group)
		}
		b.WriteRune(r)
	}
	return fmt.Sprintf(m.Format, symbol, b.String()+m.Point+cents)
}

// texts are all texts for customers in one language. Texts with %s or %d are formats; every
// language has the same ones. Each language has a file in languages/. A new text is a field here, a line in
// each language, and its place in a template. In French, a no-break space stands before ":", and a narrow
// one before ";", "!" and "?".
type texts struct {
	Skip, Language                                                     string
	TestBadge, TestLead, TestBefore, TestCard, TestAfter               string
	Total, Amount, Reference, ExpiresIn, ExpiresAt                     string
	FiveMinutes, OneMinute                                             string
	Support, Terms, PrivacyPolicy                                      string
	Items, Description, ReturnsTo, Privacy                             string
	FormHeading, Email, EmailHint, Card, CardNumber, Exp, ExpHint      string
	Accepted, CVC, CVCHint, CVCHintAmex, Name, Pay, Paying             string
	DeclinedHeading, AttemptsLeft, LastAttempt                         string
	FixHeading, FixErrors, OvertakenHeading, OvertakenText             string
	OfflineHeading, OfflineText                                        string
	NotReady, NetworkAway, NotPossibleHeading, NotPossible             string
	Simulated, ScriptNeeded, CardLoading, CardAwayHeading, CardAway    string
	CardFault, FixLive, PrivacyLive                                    string
	NumberMissing, NumberDigits, NumberShort, NumberLong, NumberBad    string
	ExpMissing, ExpFormat, ExpMonth, ExpPast, ExpFar                   string
	CVCMissing, CVCThree, CVCFour, CVCEither                           string
	EmailMissing, EmailBad, EmailLong, EmailCard                       string
	NameMissing, NameLong, NameBad, NameCard                           string
	ActionHeading, ActionText, ActionButton, ActionAgain               string
	ProcessingHeading, ProcessingText, ProcessingKeep                  string
	CheckingHeading, CheckingText, CheckingCancel                      string
	CompletedHeading, CompletedText, CompletedBack, CompletedSoon      string
	CompletedElsewhere, CompletedStay, CompletedStays                  string
	CompletedClose, CompletedPrint                                     string
	AmountPaid, PaidWith, PaidTo, PaidAt, PaymentReference             string
	FailedHeading, FailedText, ExpiredHeading, ExpiredText, ClosedText string
	UnknownTitle, UnknownText, MethodTitle, MethodText                 string
	ForbiddenTitle, ForbiddenText, TooLargeTitle, TooLargeText         string
	TooManyTitle, TooManyText, SlowedText                              string
	UnreadableTitle, UnreadableText, AwayTitle, AwayText               string
	TryAgain                                                           string
	ReceiptSubject, ReceiptWhy                                         string // of the mail
	TitlePay, TitleState                                               string

	// Reasons of failed payments, one for each checkout.FailureCode.
	CardDeclined, InsufficientFunds, ExpiredCard, IncorrectCVC      string
	FraudBlocked, ThreeDSFailed, ThreeDSAbandoned, ProcessingFailed string

	Months string // twelve words
	Date   string // day, month, year, time
}

// failure returns the reason of a failed payment for the customer.
func (t *texts) failure(code checkout.FailureCode) string {
	return map[checkout.FailureCode]string{
		checkout.FailureCardDeclined: t.CardDeclined, checkout.FailureInsufficientFunds: t.InsufficientFunds,
		checkout.FailureExpiredCard: t.ExpiredCard, checkout.FailureIncorrectCVC: t.IncorrectCVC,
		checkout.FailureFraudBlocked: t.FraudBlocked, checkout.FailureThreeDSFailed: t.ThreeDSFailed,
		checkout.FailureThreeDSAbandoned: t.ThreeDSAbandoned, checkout.FailureProcessingError: t.ProcessingFailed,
	}[code]
}

// date writes a time out, in UTC.
func (t *texts) date(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf(t.Date, at.Day(), strings.Fields(t.Months)[at.Month()-1], at.Year(), at.Format("15:04 MST"))
}
