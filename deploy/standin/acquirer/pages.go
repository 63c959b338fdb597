package acquirer

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed static
var embedded embed.FS

// pages serves the origin that stands for js.stripe.com and for the bank.
func (a *Acquirer) pages() http.Handler {
	static, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	file := func(name, policy string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			if policy != "" {
				w.Header().Set("Content-Security-Policy", policy)
			}
			http.ServeFileFS(w, r, static, name)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dahlia/stripe.js", file("stripe.js", ""))
	mux.HandleFunc("GET /frame", file("frame.html",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'"))
	mux.HandleFunc("GET /frame.js", file("frame.js", ""))
	mux.HandleFunc("GET /frame.css", file("frame.css", ""))
	mux.HandleFunc("POST /tokens", a.serveToken)
	mux.HandleFunc("/bank/{intent}", a.serveBank)
	// Another origin's page may not have a card of its visitor tokenized.
	return http.NewCrossOriginProtection().Handler(mux)
}
