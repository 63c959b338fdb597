package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages maps names to templates. Each file defines "main" for layout.html. parts.html has the parts
// that several files use.
var pages = func() map[string]*template.Template {
	shared := template.New("").Funcs(functions)
	parse(shared, "layout")
	parse(shared, "parts")
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // embedded
	}
	m := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if name == "layout" || name == "parts" {
			continue
		}
		m[name] = template.Must(shared.Clone())
		parse(m[name], name)
	}
	return m
}()

var postForm = regexp.MustCompile(`<form method="post"[^>]*>`)

// parse adds a file's templates to t. Every form that changes something gets the field membership: the same path is a
// page of every merchant, and another tab may have opened another merchant.
func parse(t *template.Template, name string) {
	text, err := templateFiles.ReadFile("templates/" + name + ".html")
	if err != nil {
		panic(err) // embedded
	}
	template.Must(t.New(name + ".html").Parse(postForm.ReplaceAllString(string(text), `$0{{template "membership" $$}}`)))
}

var functions = template.FuncMap{
	"asset":  assetURL,
	"time":   showTime,
	"money":  showMoney,
	"title":  upperFirst,
	"words":  func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	"roles":  func() []checkout.Role { return checkout.Roles },
	"string": func(v any) string { return fmt.Sprint(v) },
	"now":    time.Now,
	"ago":    func(t *time.Time) string { return showAgo(t, time.Now()) },

	"currencies":       func() []checkout.Currency { return checkout.Currencies },
	"payoutCurrencies": func() []checkout.PayoutCurrency { return checkout.PayoutCurrencies },
	"payoutStatuses":   func() []checkout.PayoutStatus { return checkout.PayoutStatuses },

	"sessionStatuses": func() []checkout.Status { return checkout.Statuses },
	"tableStatuses": func() []checkout.Status {
		return []checkout.Status{
			checkout.StatusCompleted,
			checkout.StatusFailed,
			checkout.StatusExpired,
			checkout.StatusPending,
		}
	},

	"why":      why,
	"result":   webhook.Attempt.Outcome,
	"duration": showDuration,
	"took":     took,
	"lasts":    lasts,
	"means":    webhook.EventType.Words,
	"events":   func() []webhook.EventType { return webhook.EventTypes },
	"statuses": func() []webhook.DeliveryStatus { return webhook.DeliveryStatuses },
	"dict":     dict,
}

// dict makes one value of several, for a template with one argument. pairs alternates names and
// values.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		m[fmt.Sprint(pair[0])] = pair[1]
	}
	return m
}

func upperFirst(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// showTime formats a time.Time or *time.Time in UTC; "–" for nil.
func showTime(t any) string {
	switch t := t.(type) {
	case time.Time:
		return t.UTC().Format("2 Jan 2006 15:04:05")
	case *time.Time:
		if t != nil {
			return showTime(*t)
		}
	}
	return "–"
}

// showDuration formats a duration for people: "24 h", "90 min" or "20 s".
func showDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// showAgo returns the time from t to now in words, "never" for nil.
func showAgo(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	ago := now.Sub(*t)
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if n := int(ago / unit.length); n == 1 {
			return "1 " + unit.name + " ago"
		} else if n > 1 {
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "just now"
}

// showMoney formats an amount in minor units with its currency, such as "1,234.50 EUR".
func showMoney(a checkout.Amount, c checkout.Currency) string {
	whole, fraction, _ := strings.Cut(a.String(), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + "." + fraction + " " + string(c)
}

// view is the data of the templates.
type view struct {
	visit
	Title  string
	Notice string
	Data   any // the page's own data

	// Simulated: live mode is a simulation on this computer.
	Simulated bool

	// Docs is the address of the REST API's documentation, "" for none.
	Docs string

	// Passkeys: the dashboard's address can have passkeys.
	Passkeys bool

	runs string // address of the runs in Temporal's UI; "" for none
}

func (s *server) view(v visit, title string, data any) view {
	return view{
		visit: v, Title: title, Notice: v.notice, Data: data, Simulated: s.Simulated, Docs: s.docs(), runs: s.runs(),
		Passkeys: s.passkeys != nil,
	}
}

// docs returns the address of the REST API's documentation, "" when the API's address is not known.
func (s *server) docs() string {
	if s.APIURL == "" {
		return ""
	}
	return strings.TrimSuffix(s.APIURL, "/") + "/docs"
}

// runs returns the address of the service's runs in Temporal's UI, "" without a UI.
func (s *server) runs() string {
	if s.TemporalUI == "" {
		return ""
	}
	return s.TemporalUI + "/namespaces/" + url.PathEscape(s.Namespace) + "/workflows/"
}

// SignedIn reports whether the visitor is signed in.
func (v view) SignedIn() bool { return v.Member.ID != "" }

// Live reports whether the page belongs to live mode.
func (v view) Live() bool { return v.Mode.Live() }

// In reports whether the page belongs to a section of the navigation.
func (v view) In(section string) bool {
	path := strings.TrimPrefix(v.URL.Path, v.Path(""))
	if section == "" {
		return path == "" || path == "/"
	}
	return path == "/"+section || strings.HasPrefix(path, "/"+section+"/")
}

// OtherMode returns the address of the same section in the other mode. It leaves out the id,
// because an id exists in one mode only.
func (v view) OtherMode() string {
	section, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(v.URL.Path, v.Path("")), "/"), "/")
	return "/" + string(v.Mode.Other()) + "/" + section
}

// Run returns the address of a run in Temporal's UI, "" without a UI.
func (v view) Run(workflowID string) string {
	if v.runs == "" {
		return ""
	}
	return v.runs + workflowID
}

// Once returns a token for a form that creates something. If the form is sent twice, it creates one
// thing.
func (view) Once() string {
	token, _ := checkout.NewToken()
	return token
}

// notices are the messages that a page can show after an action. A cookie holds only the key, so
// that no cookie can make a page show another text.
var notices = map[string]string{}

// notice adds a message to notices and returns its key.
func notice(key, text string) string {
	notices[key] = text
	return key
}

// takeNotice returns the message for this page and removes its cookie. It returns "" when htmx
// loads a part of a page, so that the message waits for a whole page.
func (s *server) takeNotice(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(s.cookieName(noticeCookie))
	if err != nil || r.Header.Get("HX-Request") != "" {
		return ""
	}
	s.setCookie(w, noticeCookie, "", -1)
	return notices[cookie.Value]
}

// render writes a page. It renders the whole page first, so that a failing template sends nothing
// of it.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, page string, v view) {
	var text bytes.Buffer
	if err := pages[page].ExecuteTemplate(&text, "layout.html", v); err != nil {
		s.Log.ErrorContext(r.Context(), "dashboard", "page", page, "error", err)
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // an error means that the visitor has gone
}
