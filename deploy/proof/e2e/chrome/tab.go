// Package chrome drives a headless Chromium in the tests of the pages. It opens tabs, acts in them
// and checks their look.
package chrome

import (
	"context"
	"fmt"
	"os"
	"strings"
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

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
)

// BrowserTimeout is the longest wait for one step in a page, on a busy computer.
const BrowserTimeout = 4 * time.Minute

// The Chromium of this process, and how many tests use it.
var running struct {
	sync.Mutex
	browser context.Context
	stop    func()
	tests   int
}

// StartBrowser returns the Chromium of this process: the one that CHROME names, or an installed one. The tests that run
// share it. The first of them starts it, and it ends with the last.
func StartBrowser(t *testing.T) context.Context {
	names := []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} // the first needs half the processor
	if named := os.Getenv("CHROME"); named != "" {
		names = append([]string{named}, names...)
	}
	path := need.Program(t, "apt-get install chromium-headless-shell", names...)
	running.Lock()
	defer running.Unlock()
	if running.tests == 0 {
		running.browser, running.stop = start(path)
	}
	running.tests++
	t.Cleanup(func() {
		running.Lock()
		defer running.Unlock()
		if running.tests--; running.tests == 0 {
			running.stop()
		}
	})
	require.NoError(t, chromedp.Do(running.browser))
	return running.browser
}

func start(path string) (browser context.Context, stop func()) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(BrowserTimeout))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses to work for root
	}
	process, end := chromedp.NewExecAllocator(context.Background(), options...)
	browser, _ = chromedp.NewContext(process) // end closes it too
	return browser, func() {
		ctx, cancel := context.WithTimeout(browser, 10*time.Second)
		defer cancel()
		_ = chromedp.Cancel(ctx) // a Chromium that is asked to end removes its temporary files; end kills another one
		end()
	}
}

// Tab is a tab that shares no cookie, cache or storage with another test. Errors and warnings in
// the console of its pages fail the test at its end.
type Tab struct {
	T   *testing.T
	Ctx context.Context

	mu       sync.Mutex
	faults   []string
	expected string // see Expect
}

// NewTab opens a tab, closed at the end of the test.
func NewTab(t *testing.T, browser context.Context) *Tab {
	return open(t, browser, chromedp.WithNewBrowserContext())
}

// Another opens a further tab of the same browser, with the same cookies.
func (b *Tab) Another() *Tab { return open(b.T, b.Ctx) }

func open(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *Tab {
	ctx, stop := chromedp.NewContext(parent, options...)
	t.Cleanup(stop)
	b := &Tab{T: t, Ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	Call(b, audits.Enable, cdp.Empty{})
	t.Cleanup(func() { require.Empty(t, b.TakeFaults(), "the browser complained") })
	return b
}

// listen notes errors and warnings of scripts, of the network and of the pages' content security policies.
func (b *Tab) listen(event any) {
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
			fault = fmt.Sprintf("content security policy: %s %q", d.ViolatedDirective, d.BlockedURL)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if fault != "" && (b.expected == "" || !strings.Contains(fault, b.expected)) {
		b.faults = append(b.faults, fault)
	}
}

// Expect forgets the noted errors and warnings, and from now on those with a text: the browser may report one twice.
func (b *Tab) Expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.expected = nil, text
}

// TakeFaults returns the noted errors and warnings, and forgets them.
func (b *Tab) TakeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// TakeStatus is TakeFaults for pages that the test made fail: the browser notes their status, and nothing else.
func (b *Tab) TakeStatus(status string) {
	for _, fault := range b.TakeFaults() {
		require.Contains(b.T, fault, status)
	}
}

// RequireComplaint runs a script and waits until the browser complains with a text.
func (b *Tab) RequireComplaint(script, want string) {
	b.Script(script)
	e2e.Await(b.T, want, BrowserTimeout, func() bool { return strings.Contains(strings.Join(b.TakeFaults(), "\n"), want) })
}

// Do runs steps. Each step must end within BrowserTimeout.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	for i, step := range steps {
		_, err := run(b, step)
		b.requireDone(err, i+1)
	}
}

// Get runs an action that returns something.
func Get[T any](b *Tab, action chromedp.Action[T]) T {
	got, err := run(b, action)
	b.requireDone(err, 1)
	return got
}

// requireDone shows where a test is stuck.
func (b *Tab) requireDone(err error, step int) {
	if err != nil {
		require.NoError(b.T, err, "step %d; the page is %s", step, b.describe())
	}
}

// run runs an action, and again when the element that it found was replaced: the click before had just left its page,
// or the page has swapped that part.
func run[T any](b *Tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.Ctx, BrowserTimeout)
	defer cancel()
	for {
		got, err := chromedp.Run(ctx, action)
		// Chromium begins the sentence with "Could not find node" or with "Node".
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "ode with given id") {
			return got, err
		}
	}
}

// Eval returns what an expression of the page is.
func Eval[T any](b *Tab, expression string, how ...chromedp.EvaluateOption) T {
	return Get(b, chromedp.Evaluate[T](expression, how...))
}

// Call sends a command to the browser and returns its answer.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	return Get(b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
}

// describe returns the state of the page, to show where a test is stuck.
func (b *Tab) describe() string {
	ctx, cancel := context.WithTimeout(b.Ctx, 5*time.Second)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + " " + document.body.dataset.state + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return got
}

// See waits until an element is visible.
func See(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(selector))
}

// Click clicks on an element once it is visible.
func Click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// TypeInto types into a field once it is visible.
func TypeInto(selector, what string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(selector), what)
}

// Empty clears a field as a person does.
func Empty(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(() => { const f = document.querySelector(%q); f.focus(); f.select(); document.execCommand("delete"); })()`, selector))
}

// Text returns the visible text of an element.
func (b *Tab) Text(selector string) string {
	return Get(b, chromedp.Text(chromedp.CSS(selector)))
}

// Attribute returns an attribute of an element.
func (b *Tab) Attribute(selector, name string) string {
	return Get(b, chromedp.AttributeValue(chromedp.CSS(selector), name)).Value
}

// Value returns the content of a field.
func (b *Tab) Value(selector string) string {
	return Get(b, chromedp.Value(chromedp.CSS(selector)))
}

// A Look is a window's size and a color scheme. A phone has touch.
type Look struct {
	width, height int64
	phone         bool
	scheme        string
	// rules are the axe rules that this look needs; nil means all. What axe finds depends on the size or on the colors:
	// two looks with all rules see each of them.
	rules []string
}

const contrast = "color-contrast"

// The first two see each size and each scheme. -long looks at the other two as well.
var looks = []Look{
	{320, 640, true, "light", nil}, {1440, 900, false, "dark", nil},
	{320, 640, true, "dark", []string{contrast}}, {1440, 900, false, "light", []string{contrast}},
}

func (l Look) emulate() chromedp.Action[chromedp.Void] {
	if l.phone {
		return chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	return chromedp.EmulateViewport(l.width, l.height)
}

// endTransitions ends transitions, so that colors have their final values. Endless animations go on.
const endTransitions = `document.getAnimations().forEach((a) => a.effect.getComputedTiming().iterations === Infinity || a.finish())`

// EachLook shows the page in each look.
func (b *Tab) EachLook(name string, look func(what string, l Look)) {
	chosen := looks[:2]
	if *e2e.Long {
		chosen = looks
	}
	e2e.Await(b.T, "the page has its style sheets", BrowserTimeout, func() bool {
		return Get(b, chromedp.Evaluate[string](`document.readyState`)) == "complete"
	})
	b.Resized(func() {
		for _, l := range chosen {
			what := fmt.Sprintf("%s-%d-%s", name, l.width, l.scheme)
			b.Do(l.emulate())
			b.Emulate(ColorScheme, l.scheme)
			b.Script(endTransitions)
			look(what, l)
		}
	})
	b.Emulate(ColorScheme, "")
}

// Resized runs look, which resizes the window. Afterwards the page has its own size again, at once:
// chromedp.EmulateReset takes effect only with some later frame, and a click before that frame may hit the place where
// its element was.
func (b *Tab) Resized(look func()) {
	own := Get(b, chromedp.Evaluate[[]int64](`[innerWidth, innerHeight]`))
	look()
	b.Do(chromedp.EmulateViewport(own[0], own[1]))
}

// Inspect checks each look: nothing is wider than the window, everything is large enough to touch,
// and axe finds no violation.
func (b *Tab) Inspect(name string) {
	b.EachLook(name, func(what string, l Look) {
		b.RequireFits(what, l.phone)
		b.AxeIn(l, what)
	})
}

// RequireReadable checks each look: nothing is wider than the window, and axe finds no violation.
func (b *Tab) RequireReadable(name string) {
	b.EachLook(name, func(what string, l Look) {
		b.RequireNoSideways(what)
		b.AxeIn(l, what)
	})
}

// Glance is Inspect in one look: a narrow phone, where long words stick out first.
func (b *Tab) Glance(name string) {
	b.Resized(func() {
		b.Do(looks[0].emulate())
		b.RequireFits(name, true)
		b.Axe(name)
	})
}

// RequireFits checks that there is no horizontal scroll bar. It also checks the height of
// everything that can be pressed, except links in a text: at least 44 pixels, or 24 with a mouse.
func (b *Tab) RequireFits(what string, touch bool) {
	least := 24
	if touch {
		least = 44
	}
	b.RequireNoSideways(what)
	require.Empty(b.T, Get(b, chromedp.Evaluate[[]string](fmt.Sprintf(`
		Array.from(document.querySelectorAll("a, button, input:not([type=hidden])"))
			.filter((e) => e.offsetParent !== null && !e.classList.contains("skip") && e.getBoundingClientRect().height < %d)
			.map((e) => e.outerHTML.slice(0, 120) + " is " + e.getBoundingClientRect().height)`, least))), what)
}

// RequireNoSideways checks that the page is not wider than the window, and names the elements that stick out.
func (b *Tab) RequireNoSideways(what string) {
	require.Empty(b.T, Get(b, chromedp.Evaluate[[]string](`(() => {
		const page = document.documentElement
		const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement))
		return page.scrollWidth <= page.clientWidth ? [] : Array.from(document.querySelectorAll("body *"))
			.filter((e) => e.getBoundingClientRect().right > page.clientWidth && !scrolls(e))
			.slice(0, 8).map((e) => e.outerHTML.slice(0, 60) + "… ends at " + e.getBoundingClientRect().right)
	})()`)), "%s scrolls sideways", what)
}

// RequireTablesFit checks that nothing of the page scrolls sideways on a small laptop, 1280 pixels wide, also not in a
// table's own box.
func (b *Tab) RequireTablesFit(what string) {
	b.Resized(func() {
		b.Do(Look{width: 1280, height: 800}.emulate())
		require.Empty(b.T, Get(b, chromedp.Evaluate[[]string](`Array.from(document.querySelectorAll("html, main, main *"))
			.filter((e) => e.scrollWidth > e.clientWidth && (e.tagName === "HTML" || ["auto", "scroll"].includes(getComputedStyle(e).overflowX)))
			.map((e) => e.outerHTML.slice(0, 90) + "… " + e.scrollWidth + " in " + e.clientWidth)`)), "%s at 1280 pixels", what)
	})
}

// ColorScheme is a media feature: "light" or "dark".
const ColorScheme = "prefers-color-scheme"

// Emulate emulates a media feature; the value "" stops it.
func (b *Tab) Emulate(feature, value string) {
	features := []*emulation.MediaFeature{{Name: feature, Value: value}}
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// NoScript switches JavaScript off for the pages that follow.
func (b *Tab) NoScript() {
	Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// Script runs a line of JavaScript.
func (b *Tab) Script(line string) {
	b.Do(chromedp.Evaluate[chromedp.Void]("void (" + line + ")"))
}

// SeeText waits until the page of another program shows a text.
func SeeText(what string) chromedp.Action[chromedp.Void] {
	return Poll(fmt.Sprintf("document.body.innerText.includes(%q)", what))
}

// Poll waits until an expression of the page is true.
func Poll(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(BrowserTimeout))
}
