package deploy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A document is one *.md file of the repository.
type document struct {
	name     string // from the root of the module
	text     string // without fenced code
	headings map[string]bool
	anchors  map[string]bool
	links    []link
}

// A link is [text](target).
type link struct{ text, target string }

var (
	fencedCode = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	linkShape  = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)`)
)

// at returns the path of a file of the repository.
func at(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }

func read(t *testing.T, name string) string {
	content, err := os.ReadFile(at(name))
	require.NoError(t, err)
	return string(content)
}

func readDocument(t *testing.T, name string) document { return newDocument(name, read(t, name)) }

func newDocument(name, content string) document {
	d := document{name: name, text: fencedCode.ReplaceAllString(content, ""), headings: map[string]bool{}, anchors: map[string]bool{}}
	for line := range strings.SplitSeq(d.text, "\n") {
		if marks, heading, ok := strings.Cut(line, "# "); ok && strings.Trim(marks, "#") == "" {
			heading = linkShape.ReplaceAllString(heading, "$1")
			d.headings[plain(heading)] = true
			d.anchors[anchor(heading)] = true
		}
	}
	for _, found := range linkShape.FindAllStringSubmatch(d.text, -1) {
		d.links = append(d.links, link{found[1], found[2]})
	}
	return d
}

// plain is text in lower case without marks for code.
func plain(text string) string { return strings.ToLower(strings.ReplaceAll(text, "`", "")) }

// anchor is the fragment that GitHub gives a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// broken says why the link of d leads nowhere; empty when it does not, or leads
// to another host.
func (d document) broken(t *testing.T, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, fragment, _ := strings.Cut(target, "#")
	to := d
	if file != "" {
		name := path.Join(path.Dir(d.name), file)
		if _, err := os.Stat(at(name)); err != nil {
			return "there is no " + name
		}
		if fragment == "" || path.Ext(name) != ".md" {
			return ""
		}
		to = readDocument(t, name)
	}
	if fragment != "" && !to.anchors[fragment] {
		return fmt.Sprintf("%s has no heading #%s", to.name, fragment)
	}
	return ""
}

// eachFile calls do with each file of the repository that has the extension.
func eachFile(t *testing.T, extension string, do func(name string)) {
	require.NoError(t, filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"
		if entry.IsDir() && p != root && hidden {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(p) != extension {
			return nil
		}
		name, err := filepath.Rel(root, p)
		do(filepath.ToSlash(name))
		return err
	}))
}

func TestDocuments_LinksResolve(t *testing.T) {
	t.Parallel()
	faults, documents := map[string]bool{}, 0
	eachFile(t, ".md", func(name string) {
		documents++
		d := readDocument(t, name)
		for _, l := range d.links {
			if why := d.broken(t, l.target); why != "" {
				faults[fmt.Sprintf("%s links to %s, but %s", name, l.target, why)] = true
			}
		}
	})
	require.Greater(t, documents, 10, "the test did not find the documents")
	report(t, faults)
}

func TestDocuments_TheLinkTestCanFail(t *testing.T) {
	t.Parallel()
	d := newDocument("api/x.md", "# The `x` of it\n\n[a](#the-x-of-it) [b](#the-y) [c](none.md) [`d`](openapi.yaml) "+
		"[e](decisions.md#no) [f](https://example.com/none)\n```\n[g](none)\n```\n")
	var broken []string
	for _, l := range d.links {
		if why := d.broken(t, l.target); why != "" {
			broken = append(broken, l.text+": "+why)
		}
	}
	require.Equal(t, []string{
		"b: api/x.md has no heading #the-y", "c: there is no api/none.md", "e: api/decisions.md has no heading #no",
	}, broken)
}

// TestDocuments_TheREADMEIsShort: a newcomer reads it whole.
func TestDocuments_TheREADMEIsShort(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, strings.Count(read(t, "README.md"), "\n"), 150)
}

// TestDecisions_AreInTheIndex: api/decisions.md lists every point of
// api/decisions/*.md, and nothing else.
func TestDecisions_AreInTheIndex(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, l := range readDocument(t, "api/decisions.md").links {
		if file, _, ok := strings.Cut(l.target, "#"); ok {
			listed[file+" "+plain(l.text)] = true
		}
	}
	points := map[string]bool{}
	eachDecision(t, func(theme, point, _ string) { points[strings.TrimPrefix(theme, "api/")+" "+plain(point)] = true })
	require.Greater(t, len(points), 150, "the test did not find the decisions")
	require.Equal(t, points, listed)
}

// eachDecision calls do with the file, the name and the text of each point.
func eachDecision(t *testing.T, do func(theme, point, text string)) {
	eachFile(t, ".md", func(name string) {
		if path.Dir(name) != "api/decisions" {
			return
		}
		for _, section := range strings.Split(read(t, name), "\n## ")[1:] {
			point, text, _ := strings.Cut(section, "\n")
			do(name, point, text)
		}
	})
}

// TestDecisions_LinkTheirTests: a point says which tests hold it. TestDocuments_LinksResolve opens the links.
func TestDecisions_LinkTheirTests(t *testing.T) {
	t.Parallel()
	faults, linked := map[string]bool{}, 0
	eachDecision(t, func(theme, point, text string) {
		_, tests, ok := strings.Cut(text, "\nTests: ")
		if !ok && !strings.Contains(text, "\nNo test: ") {
			faults[fmt.Sprintf("%s, %q: no line says which tests hold it", theme, point)] = true
		}
		for _, found := range linkShape.FindAllStringSubmatch(tests, -1) {
			linked++
			if !strings.HasSuffix(found[2], "_test.go") {
				faults[fmt.Sprintf("%s, %q: %s is not a file of tests", theme, point, found[2])] = true
			}
		}
	})
	require.Greater(t, linked, 300, "the test did not find the tests")
	report(t, faults)
}

var citationShape = regexp.MustCompile(`([\w/.-]+\.md), "([^"]+)"`)

// TestDocuments_CitationsAreTrue: a comment that cites a document, such as
// api/decisions/sessions.md, "expire", names a heading of it.
func TestDocuments_CitationsAreTrue(t *testing.T) {
	t.Parallel()
	faults, citations := map[string]bool{}, 0
	eachFile(t, ".go", func(name string) {
		file, err := parser.ParseFile(token.NewFileSet(), at(name), nil, parser.ParseComments)
		require.NoError(t, err)
		for _, found := range citationShape.FindAllStringSubmatch(comments(file), -1) {
			citations++
			if why := untrue(t, found[1], found[2]); why != "" {
				faults[fmt.Sprintf("%s cites %s, but %s", name, found[0], why)] = true
			}
		}
	})
	require.Greater(t, citations, 60, "the test did not find the citations")
	report(t, faults)
}

// comments are all comments of a file, each on one line.
func comments(file *ast.File) string {
	var all strings.Builder
	for _, group := range file.Comments {
		all.WriteString(strings.Join(strings.Fields(group.Text()), " ") + "\n")
	}
	return all.String()
}

// untrue says why nobody finds the cited words; empty when they are a heading of
// the document.
func untrue(t *testing.T, name, words string) string {
	if _, err := os.Stat(at(name)); err != nil {
		return "there is no such file: name it from the root of the repository"
	}
	if !readDocument(t, name).headings[plain(words)] {
		return fmt.Sprintf("%s has no heading %q", name, words)
	}
	return ""
}

var (
	tableShape     = regexp.MustCompile(`(?ms)^CREATE (?:UNLOGGED )?TABLE (\w+) \((.*?)^\)`)
	referenceShape = regexp.MustCompile(`REFERENCES (\w+)`)
)

// TestDocuments_StorageIsDrawn: storage/README.md has every table, and draws every
// foreign key of a table as it was created.
func TestDocuments_StorageIsDrawn(t *testing.T) {
	t.Parallel()
	content, drawn := read(t, "storage/README.md"), map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^ +(\w+) \|\|--o\{ (\w+) :`).FindAllStringSubmatch(content, -1) {
		drawn[found[1]+" "+found[2]] = true
	}

	keys := map[string]bool{}
	eachFile(t, ".sql", func(name string) {
		if path.Dir(name) != "storage/migrations" {
			return
		}
		for _, table := range tableShape.FindAllStringSubmatch(read(t, name), -1) {
			require.Contains(t, content, "`"+table[1]+"`")
			for _, to := range referenceShape.FindAllStringSubmatch(table[2], -1) {
				keys[to[1]+" "+table[1]] = true
			}
		}
	})
	require.Greater(t, len(keys), 15, "the test did not find the tables")
	require.Equal(t, keys, drawn)
}
