package hosted

import (
	"embed"
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
)

//go:embed static/*
var staticFiles embed.FS

var files = web.LoadFiles(staticFiles, "static", "checkout.css")

// asset returns the address of a file in static/.
func (s *server) asset(name string) string { return files.URL(s.base+"/static", name) }

// static serves GET /static/{file}.
func (s *server) static(w http.ResponseWriter, r *http.Request) error {
	if !files.Serve(w, r, mux.Vars(r)["file"]) {
		return failure.NotFound
	}
	return nil
}
