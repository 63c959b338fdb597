package dashboard

import (
	"embed"

	"example.com/checkout/api/web"
)

//go:embed static/*
var staticFiles embed.FS

var files = web.LoadFiles(staticFiles, "static")

// assetURL returns the address of a file in static/.
func assetURL(name string) string { return files.URL("/static", name) }
