package page

import (
	"strings"

	"example.com/checkout/workflows/merchant"
)

// View is the data of the templates.
type View struct {
	Visit
	Site

	Title  string
	Notice string
	Data   any // the page's own data
}

// Live reports whether the page belongs to live mode.
func (v View) Live() bool { return v.Mode.Live() }

// In reports whether the page belongs to a section of the navigation.
func (v View) In(section string) bool {
	path := strings.TrimPrefix(v.URL.Path, v.Path(""))
	if section == "" {
		return path == "" || path == "/"
	}
	return path == "/"+section || strings.HasPrefix(path, "/"+section+"/")
}

// OtherMode returns the address of the same section in the other mode. It leaves out the id,
// because an id exists in one mode only.
func (v View) OtherMode() string {
	section, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(v.URL.Path, v.Path("")), "/"), "/")
	v.Mode = v.Mode.Other()
	return v.Path("/" + section)
}

// Home returns the address that leads to the first page of a merchant.
func (View) Home(merchantID string) string { return Home(merchantID) }

// Run returns the address of a run in Temporal's UI, "" without a UI.
func (v View) Run(workflowID string) string {
	if v.Runs == "" {
		return ""
	}
	return v.Runs + workflowID
}

// Once returns a token for a form that creates something. If the form is sent twice, it creates one
// thing.
func (View) Once() string {
	token, _ := merchant.NewToken()
	return token
}
