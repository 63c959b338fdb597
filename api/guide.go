package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// guide is the merchant's guide in Markdown. GitHub shows the same file.
//
//go:embed README.md
var guide []byte

// guideMarkdown renders headings with ids, and tables. It drops raw HTML.
var guideMarkdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// guideLinks maps files of the repository to their addresses on this server, relative to /docs.
var guideLinks = map[string]string{"openapi.yaml": "docs/reference"}

// section is an entry in the page's list of contents.
type section struct{ ID, Title string }

// guidePage is the guide as HTML, rendered once.
var guidePage = sync.OnceValue(func() []byte {
	page, err := renderGuide(guide)
	if err != nil {
		panic(err) // the guide and its template are embedded
	}
	return page
})

// renderGuide returns the page at /docs for a guide in Markdown.
func renderGuide(source []byte) ([]byte, error) {
	tree := guideMarkdown.Parser().Parse(text.NewReader(source))
	if err := adaptLinks(tree); err != nil {
		return nil, err
	}

	var body bytes.Buffer
	if err := guideMarkdown.Renderer().Render(&body, source, tree); err != nil {
		return nil, err
	}

	layout, err := template.ParseFS(docs, "docs/guide.html")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = layout.Execute(&page, map[string]any{
		"Sections": sectionsOf(tree, source),
		"Body":     template.HTML(focusableCode(body.String())), //nolint:gosec // rendered from the embedded guide
	})
	return page.Bytes(), err
}

// focusableCode lets the keyboard scroll a block of code that is wider than the window. The
// renderer escapes the text of the code, so only the renderer can have written these tags.
func focusableCode(body string) string {
	return strings.ReplaceAll(body, "<pre><code", `<pre tabindex="0"><code`)
}

// adaptLinks changes links that work only in the repository. A link to a served file gets this
// server's address; another link becomes plain text.
func adaptLinks(tree ast.Node) error {
	var repositoryOnly []*ast.Link
	err := ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := node.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		target := string(link.Destination)
		if served, ok := guideLinks[target]; ok {
			link.Destination = []byte(served)
		} else if !strings.HasPrefix(target, "#") && !strings.Contains(target, "://") {
			repositoryOnly = append(repositoryOnly, link)
		}
		return ast.WalkContinue, nil
	})

	for _, link := range repositoryOnly {
		unlink(link)
	}
	return err
}

// unlink replaces the link by its text.
func unlink(link *ast.Link) {
	parent := link.Parent()
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		parent.InsertBefore(parent, link, child)
	}
	parent.RemoveChild(parent, link)
}

// sectionsOf returns the headings of the second level, in the guide's order.
func sectionsOf(tree ast.Node, source []byte) []section {
	var sections []section
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		heading, ok := node.(*ast.Heading)
		if !ok || heading.Level != 2 {
			continue
		}
		id, _ := heading.AttributeString("id")
		name, _ := id.([]byte) // WithAutoHeadingID gives each heading one
		sections = append(sections, section{string(name), string(heading.Lines().Value(source))})
	}
	return sections
}
