package service

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressible are the media types of what has a text in it. Streams of events are
// not among them: each event must leave at once.
var compressible = []string{
	"text/html", "text/css", "text/javascript", "text/plain", "application/json", "application/yaml", "image/svg+xml",
}

// compressed compresses answers from 1 KiB on for those who take gzip. Files that
// never change are compressed already.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.ContentTypes(compressible))
	if err != nil {
		panic("compress: " + err.Error()) // the options are constants
	}
	return wrap(next)
}

// compressedForItself is compressed, but not for a request that another site
// caused: whoever can choose a part of a page, such as a search, and count the
// bytes of the answer finds out the rest of a compressed page letter by letter.
func compressedForItself(next http.Handler) http.Handler {
	packed := compressed(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "same-origin", "none":
			packed.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
