package release

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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
