package page

import "net/http"

// The notice cookie holds the key of a message for the next page.
const (
	noticeCookie  = "notice"
	noticeSeconds = 60
)

// notices are the messages that a page can show after an action. A cookie holds only the key, so
// that no cookie can make a page show another text.
var notices = map[string]string{}

// Notice adds a message to those that a page can show after an action, and returns its key. Call it before the first
// request.
func Notice(key, text string) string {
	notices[key] = text
	return key
}

// NothingChanged is the notice after a form that changes nothing.
var NothingChanged = Notice("nothing_changed", "There are no changes to save.")

// popNotice returns the message for this page and removes its cookie. It returns "" when htmx loads a part of a page,
// and for a visitor who is not signed in, so that the message waits for a whole page of a merchant.
func (f *Renderer) popNotice(w http.ResponseWriter, v Visit) string {
	key := f.Cookie(v.Request, noticeCookie)
	if key == "" || v.Header.Get("HX-Request") != "" || !v.SignedIn() {
		return ""
	}
	f.SetCookie(w, noticeCookie, "", -1)
	return notices[key]
}
