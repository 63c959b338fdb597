package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// screenshots is where the browser's tests leave pictures of what they saw.
var screenshots = flag.String("screenshots", "", "directory to write pictures of the pages to")

// browserTimeout is for one thing that a page is waited for, on a busy computer.
const browserTimeout = 4 * time.Minute

// findBrowser returns the path of a Chromium.
func findBrowser() (string, error) {
	for _, name := range []string{os.Getenv("CHROME"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no Chromium for the browser's tests: install it with 'apt-get install chromium', " +
		"or say in CHROME where one is")
}

// startBrowser starts one Chromium for all tests of t.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path, err := findBrowser()
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(browserTimeout))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses to work for root
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// tab is a tab that shares no cookie, cache or storage with another test. What
// its pages complain about in the console fails the test at its end.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	t.Cleanup(func() { require.Empty(t, b.takeFaults(), "the browser complained") })
	return b
}

// listen notes errors and warnings of scripts, of the network and of the pages'
// content security policies.
func (b *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			fault = fmt.Sprintf("console.%s", e.Type)
			for _, arg := range e.Args {
				fault += " " + string(arg.Value)
			}
		}
	case *runtime.EventExceptionThrown:
		fault = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			fault = fmt.Sprintf("content security policy: %s %s", d.ViolatedDirective, d.BlockedURL)
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

// takeFaults returns the complaints so far and forgets them.
func (b *tab) takeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// do runs steps, each of which has to end in time.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			b.t.Fatalf("step %d: %v\nthe page is %s", i+1, err, b.describe())
		}
	}
}

// get runs an action that returns something.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%v\nthe page is %s", err, b.describe())
	}
	return got
}

// describe tells where a test is stuck.
func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + " " + document.body.dataset.state + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return got
}

func see(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(selector))
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

func typeInto(selector, what string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(selector), what)
}

// empty takes away what is in a field, as a person does.
func empty(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(() => { const f = document.querySelector(%q); f.focus(); f.select(); document.execCommand("delete"); })()`, selector))
}

// text returns what a person reads of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Text(chromedp.CSS(selector)))
}

// value returns what is in a field.
func (b *tab) value(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Value(chromedp.CSS(selector)))
}

// A size of window. A phone has touch.
type size struct {
	width, height int64
	phone         bool
}

var sizes = []size{{320, 640, true}, {1440, 900, false}}

func (s size) emulate() chromedp.Action[chromedp.Void] {
	if s.phone {
		return chromedp.EmulateViewport(s.width, s.height, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	return chromedp.EmulateViewport(s.width, s.height)
}

// endTransitions lets colors be what they become; what never ends goes on.
const endTransitions = `document.getAnimations().forEach((a) => a.effect.getComputedTiming().iterations === Infinity || a.finish())`

// eachLook shows the page on a narrow phone and on a wide screen, light and
// dark, and keeps a picture of each with -screenshots.
func (b *tab) eachLook(name string, look func(what string, s size)) {
	b.t.Helper()
	for _, s := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			what := fmt.Sprintf("%s-%d-%s", name, s.width, scheme)
			b.do(s.emulate(), prefers(scheme))
			b.script(endTransitions)
			if *screenshots != "" { // first: it shows what look finds
				b.keep(what, get(b, chromedp.FullScreenshot(100)))
			}
			look(what, s)
		}
	}
	b.do(chromedp.EmulateReset(), prefers(""))
}

// inspect proves in each look that nothing is wider than the window, that
// everything is large enough to be touched, and that axe finds nothing.
func (b *tab) inspect(name string) {
	b.t.Helper()
	b.eachLook(name, func(what string, s size) {
		b.requireFits(what, s.phone)
		b.axe(what)
	})
}

// shoot only keeps pictures.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *screenshots != "" {
		b.eachLook(name, func(string, size) {})
	}
}

// requireFits proves that there is no horizontal scroll bar and that what can be
// pressed is at least 44 pixels high (links in a text excepted), 24 with a mouse.
func (b *tab) requireFits(what string, touch bool) {
	b.t.Helper()
	least := 24
	if touch {
		least = 44
	}
	b.requireNoSideways(what)
	require.Empty(b.t, get(b, chromedp.Evaluate[[]string](fmt.Sprintf(`
		Array.from(document.querySelectorAll("a, button, input:not([type=hidden])"))
			.filter((e) => e.offsetParent !== null && !e.classList.contains("skip") && e.getBoundingClientRect().height < %d)
			.map((e) => e.outerHTML.slice(0, 120) + " is " + e.getBoundingClientRect().height)`, least))), what)
}

// requireNoSideways proves that the page is not wider than the window, and names
// what sticks out.
func (b *tab) requireNoSideways(what string) {
	b.t.Helper()
	require.Empty(b.t, get(b, chromedp.Evaluate[[]string](`(() => {
		const page = document.documentElement
		const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement))
		return page.scrollWidth <= page.clientWidth ? [] : Array.from(document.querySelectorAll("body *"))
			.filter((e) => e.getBoundingClientRect().right > page.clientWidth && !scrolls(e))
			.slice(0, 8).map((e) => e.outerHTML.slice(0, 60) + "… ends at " + e.getBoundingClientRect().right)
	})()`)), "%s scrolls sideways", what)
}

// keep writes a picture.
func (b *tab) keep(name string, picture []byte) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(*screenshots, 0o750))
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o600))
}

// prefers emulates prefers-color-scheme; "" stops it.
func prefers(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// script runs a line of JavaScript.
func (b *tab) script(line string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void]("void (" + line + ")"))
}

// seeText waits until a page of a program that is not ours says something.
func seeText(what string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](fmt.Sprintf("document.body.innerText.includes(%q)", what))
}
