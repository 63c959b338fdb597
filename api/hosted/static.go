package hosted

import (
	"embed"

	"example.com/checkout/api/web"
)

//go:embed static/*
var staticFiles embed.FS

var files = web.LoadFiles(staticFiles, "static", "checkout.css")

// asset returns the address of a file in static/.
func (s *server) asset(name string) string { return files.URL(s.base+"/static", name) }
