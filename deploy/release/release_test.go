package release

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/build"
)

// packed returns the files of a release by name.
func packed(t *testing.T) map[string]string {
	source, err := build.Source("deploy/release", "README.md")
	require.NoError(t, err)
	files, err := filesOf(source)
	require.NoError(t, err)
	byName := map[string]string{}
	for _, f := range files {
		byName[f.name] = string(f.content)
		require.Equal(t, strings.HasPrefix(string(f.content), "#!"), f.mode == 0o755, f.name)
	}
	return byName
}

// TestFiles_PagesLinkToPagesOfTheRelease: who has the files of a release and nothing else can follow each link.
func TestFiles_PagesLinkToPagesOfTheRelease(t *testing.T) {
	t.Parallel()
	files, links := packed(t), 0
	for name, content := range files {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(found[2], "://") {
				continue
			}
			links++
			target, fragment, _ := strings.Cut(found[2], "#")
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			require.Contains(t, files, to, "%s links to %s", name, found[2])
			if fragment != "" {
				require.Contains(t, anchors(files[to]), fragment, "%s links to %s", name, found[2])
			}
		}
	}
	require.Greater(t, links, 30, "the test did not find the links")
}

// anchors returns the fragments of a page's headings.
func anchors(content string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(content, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading[1]))
	}
	return all
}

// TestFiles_AnOperatorNeedsNoSource: the pages with which an operator begins name nothing of the source, and are short.
func TestFiles_AnOperatorNeedsNoSource(t *testing.T) {
	t.Parallel()
	files := packed(t)
	for _, name := range []string{"operate.md", "alerts.md", "install.md", "without-systemd.md"} {
		content := files["checkout/"+name]
		require.NotRegexp(t, `of the source\)|go run|deploy/[a-z]+/`, content, name)
		require.LessOrEqual(t, strings.Count(content, "\n"), 300, name)
		for _, found := range regexp.MustCompile(`checkout/((?:systemd|compose|receivers)/[\w@./-]*\w)`).FindAllStringSubmatch(content, -1) {
			known := false
			for file := range files {
				known = known || strings.HasPrefix(file, "checkout/"+found[1])
			}
			require.True(t, known, "%s names %s", name, found[0])
		}
	}
}

func TestWithoutSource_NamesTheSource(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"checkout/live.md": true, "checkout/a/b.md": true}
	for text, want := range map[string]string{
		"[here](#x) [live](live.md#refund) [web](https://example.com)": "",
		"[below](a/b.md)": "",
		"[why](../../api/decisions/treasury.md#x).": "why (`api/decisions/treasury.md` of the source).",
		"[`listen`](../../api/docs/listen.md)":      "`listen` (`api/docs/listen.md` of the source)",
	} {
		got := withoutSource(file{name: "checkout/README.md", content: []byte(text)}, there)
		if want == "" {
			want = text
		}
		require.Equal(t, want, string(got), fmt.Sprintf("of %q", text))
	}
}

// TestImage_IsReadByContainerd: it compares names as they are written, without a slash before, and gives an image the
// full name that one of the index's annotations has.
func TestImage_IsReadByContainerd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, image := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
	require.NoError(t, os.WriteFile(program, []byte("a program"), 0o600))

	require.NoError(t, writeImage(map[Platform]string{{OS: "linux", Arch: "amd64"}: program}, "1.2.3", image))

	written, err := os.Open(image)
	require.NoError(t, err)
	defer written.Close()
	found := map[string]string{}
	for r := tar.NewReader(written); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		found[header.Name] = string(content)
	}
	require.Contains(t, found, "oci-layout")
	require.Regexp(t, `"io.containerd.image.name": *"docker.io/library/checkout:1.2.3"`, found["index.json"])
}
