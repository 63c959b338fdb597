package hosted

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/gorilla/mux"
)

//go:embed static/*
var staticFiles embed.FS

// file is one file of static/, with the hash by which browsers may keep it.
type file struct {
	content []byte
	hash    string
}

var files = func() map[string]file {
	m := map[string]file{}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		content, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err) // embedded
		}
		sum := sha256.Sum256(content)
		m[e.Name()] = file{content, hex.EncodeToString(sum[:8])}
	}
	return m
}()

// asset is the address of a file of static/. It changes with the content.
func (s *server) asset(name string) string {
	return s.base + "/static/" + name + "?v=" + files[name].hash
}

// static serves GET /static/{file}.
func (s *server) static(w http.ResponseWriter, r *http.Request) {
	name := mux.Vars(r)["file"]
	f, ok := files[name]
	if !ok {
		s.router.NotFoundHandler.ServeHTTP(w, r)
		return
	}
	keep(w, f.hash, r.URL.Query().Get("v") == f.hash)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

// keep lets browsers keep an answer: for good when its address names the version
// that it is, else as long as the version stays.
func keep(w http.ResponseWriter, version string, forGood bool) {
	w.Header().Set("Cache-Control", "no-cache")
	if forGood {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Etag", `"`+version+`"`)
}
