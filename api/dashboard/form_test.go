package dashboard

import (
	"net/url"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"example.com/checkout/storage/storagetest/must"
)

// form holds the fields that a page's form sends. It stays the same while the page's data changes.
type form struct {
	b      *browser
	action string
	fields url.Values
}

func (b *browser) form(path, action string) form {
	return b.formOf(b.open(path), action)
}

func (b *browser) formOf(p received, action string) form {
	if p.status == 303 { // leads to a page that asks for a proof
		p = b.follow(p)
	}
	root := must.Get(html.Parse(strings.NewReader(p.body)))(b.t)
	f := form{b, action, url.Values{}}
	found := false
	for n := range root.Descendants() {
		if n.Data == "form" && attribute(n, "action") == action && !found {
			found = true
			f.read(n)
		}
	}
	require.True(b.t, found, "no form posts to %s", action)
	return f
}

// read reads the fields and the values that a browser would send.
func (f form) read(root *html.Node) {
	for n := range root.Descendants() {
		name := attribute(n, "name")
		switch {
		case name == "" || attribute(n, "type") == "file":
		case n.Data == "input":
			if kind := attribute(n, "type"); (kind != "checkbox" && kind != "radio") || has(n, "checked") {
				value := attribute(n, "value")
				if kind == "checkbox" && !has(n, "value") {
					value = "on"
				}
				f.fields.Add(name, value)
			}
		case n.Data == "select":
			for o := range n.Descendants() {
				if o.Data == "option" && (has(o, "selected") || !f.fields.Has(name)) {
					value := attribute(o, "value")
					if !has(o, "value") && o.FirstChild != nil {
						value = o.FirstChild.Data
					}
					f.fields.Set(name, value)
				}
			}
		}
	}
}

// with returns the form with typed values. typed alternates names and values. A name given twice
// has two values; the value none removes the field.
func (f form) with(typed ...string) form {
	fields := url.Values{}
	for name, values := range f.fields {
		fields[name] = slices.Clone(values)
	}
	for i := 0; i < len(typed); i += 2 {
		fields.Del(typed[i])
	}
	for i := 0; i < len(typed); i += 2 {
		if typed[i+1] != none {
			fields.Add(typed[i], typed[i+1])
		}
	}
	f.fields = fields
	return f
}

// none is the value of a field that is not sent.
const none = "\x00none"

func (f form) send(typed ...string) received {
	f.b.t.Helper()
	return f.b.send("POST", f.action, f.with(typed...).fields)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}
