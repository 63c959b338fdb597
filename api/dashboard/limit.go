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

// Most bytes of a form, without files, with a logo, and with evidence about a dispute.
const (
	maxForm     = 64 << 10
	maxUpload   = 1<<20 + maxForm
	maxEvidence = 6 << 20
)

// Ends of the addresses of the forms with files.
const (
	pathOfBrand    = "/settings/brand"
	pathOfEvidence = "/evidence"
)

// upload reports whether a request is a form with files.
func upload(r *http.Request) bool { return mostOf(r) > maxForm }

// mostOf returns how many bytes a request may have.
func mostOf(r *http.Request) int64 {
	switch files := strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/"); {
	case files && strings.HasSuffix(r.URL.Path, pathOfBrand):
		return maxUpload
	case files && strings.HasSuffix(r.URL.Path, pathOfEvidence):
		return maxEvidence
	}
	return maxForm
}

// bounded limits the size of a request's body.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostOf(r))
		next.ServeHTTP(w, r)
	})
}
