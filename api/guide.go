package api

import (
	"bytes"
	_ "embed"
	"fmt"
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

// below is the directory of the pages that the guide leads to, as a link of the guide itself.
const below = "docs/"

// guideLinks maps files of the repository to pages in below.
var guideLinks = map[string]string{"openapi.yaml": "reference", "docs/listen.md": "listen"}

// section is an entry in the page's list of contents.
type section struct{ ID, Title string }

// guidePage is the guide as HTML, rendered once.
var guidePage = sync.OnceValue(func() []byte { return mustRender(guide, "docs", below) })

// listenPage is the page about the command `checkout listen`.
var listenPage = sync.OnceValue(func() []byte { return mustRender(docsFile("listen.md")(), "../docs", "") })

func mustRender(source []byte, home, below string) []byte {
	page, err := renderGuide(source, home, below)
	if err != nil {
		panic(err) // the pages and their template are embedded
	}
	return page
}

// renderGuide returns a page of the guide in Markdown. From that page home leads to the guide, and below to its other
// pages.
func renderGuide(source []byte, home, below string) ([]byte, error) {
	tree := guideMarkdown.Parser().Parse(text.NewReader(source))
	if err := adaptLinks(tree, home, below); err != nil {
		return nil, err
	}
	title := string(tree.FirstChild().Lines().Value(source))
	addTabs(tree, source)

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
		"Title": title, "Home": home, "Below": below,
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
func adaptLinks(tree ast.Node, home, below string) error {
	var repositoryOnly []*ast.Link
	err := ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := node.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		target := string(link.Destination)
		if served, ok := guideLinks[target]; ok {
			link.Destination = []byte(below + served)
		} else if heading, ok := strings.CutPrefix(target, "../README.md#"); ok {
			link.Destination = []byte(home + "#" + heading)
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

// languages names the languages of code blocks in tabs.
var languages = map[string]string{"sh": "curl", "go": "Go", "ts": "TypeScript", "python": "Python"}

// addTabs puts code blocks that follow each other into tabs.
func addTabs(tree ast.Node, source []byte) {
	raw := func(format string, args ...any) ast.Node {
		s := ast.NewString(fmt.Appendf(nil, format, args...))
		s.SetCode(true)
		return s
	}
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		last := lastOfTabs(node)
		if last == node {
			continue
		}
		group := node
		tree.InsertBefore(tree, group, raw("<fieldset class=tabs><legend>Language</legend>\n"))
		for i, tab := 0, node; tab != last.NextSibling(); i, tab = i+1, tab.NextSibling() {
			checked := ""
			if tab == group {
				checked = " checked"
			}
			id := fmt.Sprintf("tab-%d-%d", group.Lines().At(0).Start, i)
			tree.InsertBefore(tree, group, raw("<input type=radio name=%.*s id=%s%s><label for=%s>%s</label>\n",
				strings.LastIndexByte(id, '-'), id, id, checked, id,
				languages[string(tab.(*ast.FencedCodeBlock).Language(source))]))
		}
		tree.InsertAfter(tree, last, raw("</fieldset>\n"))
		node = last.NextSibling()
	}
}

// lastOfTabs returns the last one of the code blocks that follow each other from node on; node when it stands alone.
func lastOfTabs(node ast.Node) ast.Node {
	for node.Kind() == ast.KindFencedCodeBlock && node.NextSibling() != nil &&
		node.NextSibling().Kind() == ast.KindFencedCodeBlock {
		node = node.NextSibling()
	}
	return node
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
