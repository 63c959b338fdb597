package face

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"example.com/checkout/workflows/checkout"
)

// Write writes the answer to a visitor.
func (f *Face) Write(w http.ResponseWriter, v Visit, got Answer) {
	if got.Location == "" {
		v.notice = f.takeNotice(w, v.Request)
		f.Render(w, v, got.Status, got.Page, got.Title, got.Data)
		return
	}
	for _, cookie := range got.Cookies {
		http.SetCookie(w, cookie)
	}
	if got.Notice != "" {
		f.SetCookie(w, noticeCookie, got.Notice, noticeSeconds)
	}
	http.Redirect(w, v.Request, got.Location, got.Status)
}

// Open writes a page for a visitor who is not signed in.
func (f *Face) Open(w http.ResponseWriter, r *http.Request, status int, page, title string, data any) {
	f.Render(w, Visit{Request: r, Mode: checkout.ModeTest}, status, page, title, data)
}

// Render writes a page. It renders the whole page first, so that a failing template sends nothing
// of it.
func (f *Face) Render(w http.ResponseWriter, v Visit, status int, page, title string, data any) {
	var text bytes.Buffer
	view := View{Visit: v, Site: f.Site, Title: title, Notice: v.notice, Data: data}
	if err := f.Pages[page].ExecuteTemplate(&text, "layout.html", view); err != nil {
		f.Log.ErrorContext(v.Context(), "dashboard", "page", page, "error", err)
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
