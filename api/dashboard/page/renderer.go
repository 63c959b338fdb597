// Package page renders the dashboard's answers: pages, redirects, notices, and secrets that are shown once. Package
// login authenticates the visitor, and package dashboard has the pages.
package page

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// Site holds the facts about the dashboard that every page shows.
type Site struct {
	// Simulated: live mode is a simulation on this computer.
	Simulated bool
	// Docs is the address of the REST API's documentation, "" for none.
	Docs string
	// Runs is the address of the runs in Temporal's UI, "" for none.
	Runs string
	// Passkeys: the dashboard's address can have passkeys.
	Passkeys bool
}

// Renderer writes answers.
type Renderer struct {
	Site
	Pages  map[string]*template.Template // by name; "layout.html" of each is the whole page
	Secure bool                          // the dashboard is reached over https
	Log    *slog.Logger
}

// Write writes the answer to a visitor.
func (r *Renderer) Write(w http.ResponseWriter, v Visit, got Answer) {
	for _, cookie := range got.Cookies {
		http.SetCookie(w, cookie)
	}
	if got.Location == "" {
		v.notice = r.popNotice(w, v)
		r.Render(w, v, got.Status, got.Page, got.Title, got.Data)
		return
	}
	if got.Notice != "" {
		r.SetCookie(w, noticeCookie, got.Notice, noticeSeconds)
	}
	http.Redirect(w, v.Request, got.Location, got.Status)
}

// Render writes a page. It renders the whole page first, so that a failing template sends nothing
// of it.
func (r *Renderer) Render(w http.ResponseWriter, v Visit, status int, page, title string, data any) {
	var text bytes.Buffer
	view := View{Visit: v, Site: r.Site, Title: title, Notice: v.notice, Data: data}
	if err := r.Pages[page].ExecuteTemplate(&text, "layout.html", view); err != nil {
		r.Log.ErrorContext(v.Context(), "dashboard", "page", page, "error", err)
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, Visible(text.String())) // an error means that the visitor has gone
}

// Visible shows the characters that reorder or break a text unseen, such as U+202E, as escapes: what others wrote must
// not look like something else. In JSON the escape means the same.
func Visible(text string) string { return unseen.Replace(text) }

var unseen = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()
