// Package face gives the dashboard's answers their form: pages, redirects, notices and secrets that are shown once.
// Package login says who visits, and package dashboard has the pages.
package face

import (
	"html/template"
	"log/slog"
)

// Site is what every page knows about the dashboard.
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

// Face writes answers.
type Face struct {
	Site
	Pages  map[string]*template.Template // by name; "layout.html" of each is the whole page
	Secure bool                          // the dashboard is reached over https
	Log    *slog.Logger
}
