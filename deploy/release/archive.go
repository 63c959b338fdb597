package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
)

// A file of an archive. Archives name no owner and no time, so that they are the same each time.
type file struct {
	name    string
	mode    int64
	content []byte
}

// archive returns the files as a tar.
func archive(files []file) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// writeArchive writes the files as a tar.gz.
func writeArchive(path string, files []file) error {
	content, err := archive(files)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644) //nolint:gosec // G306: public
}
