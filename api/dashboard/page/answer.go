package page

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
)

// Handler returns the answer to a visitor. It never sees the ResponseWriter.
type Handler func(v Visit) (Answer, error)

// Answer is a page, or a redirect to Location.
type Answer struct {
	Status   int
	Page     string // name of the template
	Title    string
	Data     any
	Location string
	Notice   string         // for the page at Location
	Cookies  []*http.Cookie // package login alone has any
}

// Show answers with a page.
func Show(page, title string, data any) (Answer, error) {
	return Answer{Status: http.StatusOK, Page: page, Title: title, Data: data}, nil
}

// Refuse answers a wrong form with its page again. data has the faults.
func Refuse(page, title string, data any) (Answer, error) {
	return Answer{Status: http.StatusUnprocessableEntity, Page: page, Title: title, Data: data}, nil
}

// ShowForm is Refuse with a fault, and Show without one.
func ShowForm(fault, page, title string, data any) (Answer, error) {
	if fault != "" {
		return Refuse(page, title, data)
	}
	return Show(page, title, data)
}

// ShowAfter is Show after a read that may have failed with err.
func ShowAfter(err error, page, title string, data any) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return Show(page, title, data)
}

// GoTo answers an accepted form with a redirect. notice is what Notice returned, "" for none.
func GoTo(path, notice string, cookies ...*http.Cookie) (Answer, error) {
	return Answer{Status: http.StatusSeeOther, Location: path, Notice: notice, Cookies: cookies}, nil
}

// GoToAfter is GoTo after an action that may have failed with err.
func GoToAfter(err error, path, notice string, cookies ...*http.Cookie) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return GoTo(path, notice, cookies...)
}

// IsLocal reports whether a redirect to address, which somebody else may have written, stays at this server. Its path
// must be clean, as sent and decoded: http.Redirect cleans the path that it gets, and a browser reads a backslash as a
// slash, leaves out tabs and line ends, and takes a second slash at the beginning for the start of another host.
func IsLocal(address string) bool {
	sent, _, _ := strings.Cut(address, "?")
	decoded, err := url.PathUnescape(sent)
	return err == nil && isClean(sent) && isClean(decoded)
}

func isClean(at string) bool {
	plain := path.Clean(at)
	odd := func(r rune) bool { return r == '\\' || unicode.IsControl(r) }
	return strings.HasPrefix(at, "/") && (at == plain || at == plain+"/") && at != "//" && !strings.ContainsFunc(at, odd)
}

// OrNone returns *a, or an empty answer for nil.
func OrNone(a *Answer) Answer {
	if a == nil {
		return Answer{}
	}
	return *a
}
