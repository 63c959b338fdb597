// Package asset serves the embedded files of a page, which browsers may keep.
package asset

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"time"
)

// file is one file, with the hash by which browsers may keep it.
type file struct {
	content []byte
	hash    string
}

// Files are the files of a directory by name.
type Files map[string]file

// Load reads the directory of an embedded file system. It panics when that is
// not there, which the first start shows.
func Load(embedded embed.FS, dir string) Files {
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
		sum := sha256.Sum256(content)
		files[e.Name()] = file{content, hex.EncodeToString(sum[:8])}
	}
	return files
}

// Content returns a file, nil when there is none of that name.
func (f Files) Content(name string) []byte { return f[name].content }

// URL is the address of a file below base, the directory's. It changes with the
// content.
func (f Files) URL(base, name string) string { return base + "/" + name + "?v=" + f[name].hash }

// Serve answers with a file; false, and nothing was written, when there is none
// of that name.
func (f Files) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	found, ok := f[name]
	if !ok {
		return false
	}
	Keep(w, found.hash, r.URL.Query().Get("v") == found.hash)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.content))
	return true
}

// Keep lets browsers keep an answer: for good when its address names the version
// that it is, else as long as the version stays.
func Keep(w http.ResponseWriter, version string, forGood bool) {
	w.Header().Set("Cache-Control", "no-cache")
	if forGood {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Etag", `"`+version+`"`)
}
