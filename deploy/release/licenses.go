package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// writeLicenses writes the licenses of Go and of the modules that the program is built from. Most of them must go
// with the program.
func writeLicenses(ctx context.Context, source, path string) error {
	root, err := linesOf(ctx, source, "env", "GOROOT")
	if err != nil {
		return err
	}
	modules, err := linesOf(ctx, source, "list", "-deps",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "../cmd/checkout")
	if err != nil {
		return err
	}
	slices.Sort(modules)
	var all bytes.Buffer
	for _, module := range append([]string{"Go " + runtime.Version() + "\t" + root[0]}, slices.Compact(modules)...) {
		name, dir, _ := strings.Cut(module, "\t")
		texts, err := licensesIn(dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "==== %s ====\n\n%s\n", name, texts)
	}
	return os.WriteFile(path, all.Bytes(), 0o644) //nolint:gosec // G306: public
}

func linesOf(ctx context.Context, source string, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the arguments are those above
	cmd.Dir = source
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.FieldsFunc(string(said), func(r rune) bool { return r == '\n' }), nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`)

func licensesIn(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []byte
	for _, entry := range entries {
		if entry.IsDir() || !licenseFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name())) //nolint:gosec // G304: a file of a module
		if err != nil {
			return nil, err
		}
		texts = append(texts, text...)
	}
	if texts == nil {
		return []byte("The module has no file with a license.\n"), nil
	}
	return texts, nil
}
