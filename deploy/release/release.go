// Package release makes everything that a release hands out: programs, image, chart, notes, and the files for
// compose and systemd. The same source and the same Go give the same bytes.
package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"example.com/checkout/deploy/standin/build"
)

// A Platform is a GOOS and GOARCH, such as linux/amd64.
type Platform struct{ OS, Arch string }

// Platforms are all for which a release has a program. Those of Linux are in the image too.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// sums is the file with the SHA-256 of the others, in the form of sha256sum.
const sums = "SHA256SUMS"

// Make writes a release into dir, which must be empty or absent. version is like 1.1.0; say is told each step. The
// working directory must be inside the source tree. The errors are those of the go command and of files.
func Make(ctx context.Context, version, dir string, platforms []Platform, say func(step string)) error {
	if !regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`).MatchString(version) {
		return fmt.Errorf("%q is no version: one is like 1.1.0", version)
	}
	if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	source, err := build.Source("deploy/release", "README.md")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: public
		return err
	}
	name := filepath.Join(dir, "checkout-"+version)
	if err := writeNotes(source, version, name+"-notes.md"); err != nil { // before the long work
		return err
	}
	programs := map[Platform]string{}
	for _, p := range platforms {
		say("the program for " + p.String())
		programs[p] = name + "-" + p.OS + "-" + p.Arch
		if err := Program(ctx, p, version, programs[p]); err != nil {
			return err
		}
		if err := writeSBOM(programs[p], version); err != nil {
			return err
		}
	}
	say("image, chart, files for compose and systemd")
	return errors.Join(
		writeLicenses(ctx, source, name+"-licenses.txt"),
		writeImage(programs, version, name+"-image.tar"),
		writeChart(filepath.Join(source, "chart"), version, name+".tgz"),
		writeFiles(source, name+"-files.tar.gz"),
		writeSums(dir),
	)
}

// Program builds a version of the program checkout for a platform. It is static and needs no file beside it.
func Program(ctx context.Context, p Platform, version, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	source, err := build.Source("deploy/release", "README.md")
	if err != nil {
		return err
	}
	flags := "-ldflags=-s -w -buildid= -X example.com/checkout/deploy/program/telemetry.version=" + version
	args := []string{"build", "-trimpath", "-buildvcs=false", flags, "-o", path, "../cmd/checkout"}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: path is where the caller wants the program
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOFLAGS=", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w:\n%s", p, err, said)
	}
	return nil
}

// writeChart packs the chart as Helm does, with the version of the release.
func writeChart(source, version, path string) error {
	files, err := walk(source, "checkout")
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.name == "checkout/Chart.yaml" {
			files[i].content = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(f.content, []byte("version: "+version))
		}
	}
	return writeArchive(path, files)
}

// parts are what the files of a release hold, below deploy/release: what systemd, compose and a bare Prometheus need, a
// receiver to try it with, and the operators' guide.
var parts = []string{
	"README.md", notesPage, "operate.md", "alerts.md", "install.md", "without-systemd.md", "backups.md", "live.md", "scale.md", "settings.md",
	"systemd", "compose", "container", "receivers", "chart/files",
}

func writeFiles(source, path string) error {
	files, err := filesOf(source)
	if err != nil {
		return err
	}
	return writeArchive(path, files)
}

// filesOf returns the parts, in a directory checkout. Links of a page that lead out of it name the source instead.
func filesOf(source string) (files []file, err error) {
	for _, part := range parts {
		more, err := walk(filepath.Join(source, part), "checkout/"+part)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.name] = true
	}
	for i, f := range files {
		if path.Ext(f.name) == ".md" {
			files[i].content = withoutSource(f, there)
		}
	}
	return files, nil
}

var link = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()\s]+)\)`)

// withoutSource returns the page f without links to files that are not there. Their text stays, and names the
// file in the source.
func withoutSource(f file, there map[string]bool) []byte {
	return link.ReplaceAllFunc(f.content, func(found []byte) []byte {
		parts := link.FindSubmatch(found)
		target, _, _ := strings.Cut(string(parts[2]), "#")
		if target == "" || strings.Contains(target, "://") || there[path.Join(path.Dir(f.name), target)] {
			return found
		}
		source := path.Join("deploy/release", strings.TrimPrefix(path.Dir(f.name), "checkout"), target)
		return fmt.Appendf(nil, "%s (`%s` of the source)", parts[1], source)
	})
}

// walk returns the files below dir, in the order of their names, as if dir were called name.
func walk(dir, name string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // G304: a file of the source tree
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		files = append(files, file{filepath.ToSlash(filepath.Join(name, strings.TrimPrefix(path, dir))), mode, content})
		return nil
	})
	return files, err
}

func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name())) //nolint:gosec // G304: this package wrote it
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), entry.Name()))
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(dir, sums), []byte(strings.Join(lines, "")), 0o644) //nolint:gosec // G306: public
}

// notesPage has a section for each version.
const notesPage = "notes.md"

// writeNotes writes the section of a version. A version without one is refused.
func writeNotes(source, version, path string) error {
	page, err := os.ReadFile(filepath.Join(source, notesPage)) //nolint:gosec // G304: a file of the source tree
	if err != nil {
		return err
	}
	heading := "\n## " + version + "\n"
	_, rest, found := strings.Cut(string(page), heading)
	if !found {
		const missing = "deploy/release/%s has no section %q: say there what the version changes"
		return fmt.Errorf(missing, notesPage, strings.TrimSpace(heading))
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	text := "# checkout " + version + "\n\n" + strings.TrimSpace(section) + "\n"
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // G306: public
}
