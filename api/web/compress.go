package web

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressible are the media types of texts.
var compressible = []string{
	"text/html", "text/css", "text/javascript", "text/plain", "application/json", "application/yaml", "image/svg+xml",
}

// Compressed compresses answers of 1 KiB and more for clients that accept gzip. Answers that are
// already compressed stay as they are.
func Compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.ContentTypes(compressible))
	if err != nil {
		panic("compress: " + err.Error()) // the options are constants
	}
	return wrap(next)
}

// CompressedSameOrigin is Compressed for requests that no other site caused. Another site could
// choose a part of a page, such as a search, and count the bytes of the compressed answer. From
// many such counts it could guess the rest of the page letter by letter.
func CompressedSameOrigin(next http.Handler) http.Handler {
	packed := Compressed(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "same-origin", "none":
			packed.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
