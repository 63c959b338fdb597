package build

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Without is what a build leaves out: the files of some packages that import certain libraries, because the program
// never uses them. A stub takes the place of the files of each package. Its functions fail with an error that says why.
type Without struct {
	Libraries []string          // the beginnings of import paths
	Stubs     map[string]string // import paths of packages, and files below Program.Module
}

// flags returns the flags of the go command for such a build. Go's -overlay takes files away, but not those of its
// cache of modules. So a copy of go.mod in dir replaces the modules with links to them, which are in links.
func (w Without) flags(ctx context.Context, source, dir, links string) ([]string, error) {
	if len(w.Stubs) == 0 {
		return nil, nil
	}
	packages := slices.Sorted(maps.Keys(w.Stubs))
	list := goCommand(ctx, source,
		append([]string{"list", "-find", "-f", "{{.ImportPath}} {{.Module.Path}} {{.Module.Dir}}"}, packages...)...)
	found, err := eachLine(list, func(string) {})
	if err != nil {
		return nil, err
	}

	goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return nil, err
	}
	goSum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return nil, err
	}
	overlay, replaced := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(found) {
		part := strings.Fields(line)
		pkg, module, at := part[0], part[1], part[2]
		link := filepath.Join(links, strings.ReplaceAll(filepath.Base(at), "@", "-"))
		if err := relink(at, link); err != nil {
			return nil, err
		}
		if !replaced[module] {
			goMod, replaced[module] = fmt.Appendf(goMod, "replace %s => %s\n", module, link), true
		}
		if err := w.leaveOut(overlay, filepath.Join(link, strings.TrimPrefix(pkg, module))); err != nil {
			return nil, fmt.Errorf("package %s: %w", pkg, err)
		}
		overlay[filepath.Join(link, strings.TrimPrefix(pkg, module), "stub.go")] = filepath.Join(source, w.Stubs[pkg])
	}

	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"go.mod": goMod, "go.sum": goSum, "overlay.json": text} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return []string{"-modfile=" + filepath.Join(dir, "go.mod"), "-overlay=" + filepath.Join(dir, "overlay.json")}, nil
}

// leaveOut adds the files in the directory of a package that import one of the libraries.
func (w Without) leaveOut(overlay map[string]string, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	before := len(overlay)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range file.Imports {
			path := strings.Trim(imported.Path.Value, `"`)
			if slices.ContainsFunc(w.Libraries, func(library string) bool { return strings.HasPrefix(path, library) }) {
				overlay[name] = ""
			}
		}
	}
	if len(overlay) == before {
		return fmt.Errorf("no file imports any of %v: it needs no stub", w.Libraries)
	}
	return nil
}

// relink makes link a link to the directory at.
func relink(at, link string) error {
	if is, err := os.Readlink(link); err == nil && is == at {
		return nil
	}
	_ = os.Remove(link) // or there was none
	return os.Symlink(at, link)
}
