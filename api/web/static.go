package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/klauspost/compress/gzhttp"

	"example.com/checkout/workflows/checkout"
)

// file is one file. Browsers may keep it under its hash.
type file struct {
	content []byte
	packed  []byte // compressed with gzip; nil when that saves less than a tenth
	hash    string
}

// Files are the embedded files of a page by name. Browsers may keep them.
type Files map[string]file

// LoadFiles reads a directory of an embedded file system. The style sheets named in colored begin with
// the shared colors. It panics when the directory is missing, so the first start shows the mistake.
func LoadFiles(embedded embed.FS, dir string, colored ...string) Files {
	files := Files{}
	entries, err := embedded.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		content, err := embedded.ReadFile(dir + "/" + e.Name())
		if err != nil {
			panic(err)
		}
		if slices.Contains(colored, e.Name()) {
			content = Colored(content)
		}
		sum := sha256.Sum256(content)
		packed := Compress(content)
		if len(packed) > len(content)*9/10 {
			packed = nil
		}
		files[e.Name()] = file{content, packed, hex.EncodeToString(sum[:8])}
	}
	return files
}

// Content returns a file's content, nil for an unknown name.
func (f Files) Content(name string) []byte { return f[name].content }

// URL returns the address of a file. base is the address of the directory. The address changes with
// the content.
func (f Files) URL(base, name string) string { return base + "/" + name + "?v=" + f[name].hash }

// Serve is the Handler of a route that ends in {file}. For an unknown name it returns checkout.ErrNotFound.
func (f Files) Serve(w http.ResponseWriter, r *http.Request) error {
	name := mux.Vars(r)["file"]
	found, ok := f[name]
	if !ok {
		return checkout.ErrNotFound
	}
	forGood := r.URL.Query().Get("v") == found.hash
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Vary", "Accept-Encoding")
	if found.packed != nil && AcceptsGzip(r) {
		SetCacheHeaders(w, found.hash+"-gzip", forGood)
		w.Header().Set("Content-Encoding", "gzip")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.packed))
		return nil
	}
	SetCacheHeaders(w, found.hash, forGood)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.content))
	return nil
}

// Compress compresses content with gzip at the best level. Use it once for content that is served many
// times.
func Compress(content []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(content) // to memory, which never fails
	_ = w.Close()
	return packed.Bytes()
}

// AcceptsGzip reports whether the client accepts gzip.
func AcceptsGzip(r *http.Request) bool {
	for entry := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, quality, _ := strings.Cut(strings.TrimSpace(entry), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, ok := strings.CutPrefix(strings.TrimSpace(quality), "q=")
			return !ok || strings.Trim(q, "0.") != ""
		}
	}
	return false
}

// SetCacheHeaders sets the headers that let browsers keep an answer. forGood means that the address names the
// version, so the answer never changes. Otherwise browsers ask each time whether version is still
// current.
func SetCacheHeaders(w http.ResponseWriter, version string, forGood bool) {
	w.Header().Set("Cache-Control", "no-cache")
	if forGood {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Etag", `"`+version+`"`)
}

// colors holds the custom properties of the shared colors, in both color schemes.
//
//go:embed colors.css
var colors []byte

// Colored returns a style sheet that begins with the shared colors. One sheet needs one request.
func Colored(sheet []byte) []byte { return slices.Concat(colors, sheet) }

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
