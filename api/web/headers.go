package web

import (
	"net/http"
	"strings"
)

// SetDataHeaders sets the headers of an answer that is data, such as JSON. No cache stores it, and
// no browser guesses another type.
func SetDataHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Sources are the sources from which a page may load beside its own server. Each one is a source of a
// content security policy, such as "data:" or "https://js.example.com".
type Sources struct{ Pictures, Scripts, Frames, Connections []string }

// Policy returns the content security policy of a server's pages. A page loads only what its server
// serves, and what more names. No form leads to another origin. Browsers apply form-action to
// redirects too.
func Policy(more Sources) string {
	self := func(directive string, others []string) string {
		return directive + " " + strings.Join(append([]string{"'self'"}, others...), " ") + "; "
	}
	frames := "" // default-src forbids them
	if len(more.Frames) > 0 {
		frames = "frame-src " + strings.Join(more.Frames, " ") + "; "
	}
	return "default-src 'none'; style-src 'self'; " + self("script-src", more.Scripts) +
		self("img-src", more.Pictures) + "font-src 'self'; " + self("connect-src", more.Connections) + frames +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}

// PageHeaders sets the headers of a server's pages on every answer of next. policy applies, no
// cache stores a page, no site frames it, and no other site learns its address. With https,
// browsers are told to use only https.
func PageHeaders(policy string, https bool, next http.Handler) http.Handler {
	headers := map[string]string{
		"Content-Security-Policy": policy,
		"Referrer-Policy":         "no-referrer",
		"X-Frame-Options":         "DENY",
		"X-Robots-Tag":            "noindex, nofollow",
		"Permissions-Policy": "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), " +
			"magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	}
	if https {
		headers["Strict-Transport-Security"] = "max-age=31536000"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		SetDataHeaders(h)
		for name, value := range headers {
			h.Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}
