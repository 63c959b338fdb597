package dashboard

import (
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"
)

const bucketsOfAddress = "dashboard"

// entrance bounds how many requests are counted at once. Without it, requests from many addresses
// could take all connections to PostgreSQL only by being counted. Other merchants' requests need
// these connections.
var entrance = semaphore.NewWeighted(2)

// Most bytes of a form, without and with a file.
const (
	maxForm   = 64 << 10
	maxUpload = 1<<20 + maxForm
)

// pathOfBrand ends the address of the one form with a file.
const pathOfBrand = "/settings/brand"

// upload reports whether a request is a form with a file.
func upload(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") && strings.HasSuffix(r.URL.Path, pathOfBrand)
}

// bounded limits the size of a request's body.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxForm)
		if upload(r) {
			most = maxUpload
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}
