package web

import "net/http"

// SetDataHeaders sets the headers of an answer that is data, such as JSON: nobody
// keeps it, and no browser takes it for something else.
func SetDataHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Policy is the content security policy of a server's pages: they load what the
// server itself serves and nothing else. pictures says where else pictures may come
// from, such as "data:"; "" is nowhere. No form leads to another origin, not even
// by a redirect, to which browsers apply form-action too.
func Policy(pictures string) string {
	if pictures != "" {
		pictures = " " + pictures
	}
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'" + pictures + "; font-src 'self'; " +
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}

// PageHeaders sets the headers of a server's pages on every answer of next: policy
// holds, nobody keeps a page, frames it or learns its address. https says that the
// server is reached over https, which browsers then insist on.
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
