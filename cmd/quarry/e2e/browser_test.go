package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browser is the one Chromium of all tests, started by the first that needs it.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop []func()
	err  error
}

func stopBrowser() {
	for _, f := range browser.stop {
		f()
	}
}

// chromium finds the browser, or installs it.
func chromium() (string, error) {
	find := func() string {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	}
	if path := find(); path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New("there is no chromium, and no apt-get as root to install it")
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-droid-fallback"}} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	if path := find(); path != "" {
		return path, nil
	}
	return "", errors.New("apt-get installed no chromium")
}

func startBrowser() error {
	path, err := chromium()
	if err != nil {
		return err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	browser.stop = append(browser.stop, stop)
	ctx, stop = chromedp.NewContext(ctx)
	browser.stop = append([]func(){stop}, browser.stop...)
	browser.ctx = ctx
	return chromedp.Do(ctx)
}

// A look is how a page is seen.
type look struct {
	width, height int64
	dark, phone   bool
}

var (
	desktop     = look{width: 1360, height: 900}
	desktopDark = look{width: 1360, height: 900, dark: true}
	phone       = look{width: 390, height: 844, phone: true}
	phoneDark   = look{width: 390, height: 844, phone: true, dark: true}
)

// A tab is a page in the browser.
type tab struct {
	*testing.T
	ctx context.Context
	mu  sync.Mutex
	// errors are what the console told, foreign the requests to other places.
	errors, foreign []string
	// provoked tells that the test asked for the errors.
	provoked bool
}

// open opens an address in a tab of its own. Whatever goes wrong in the page
// until the end of the test fails it.
func open(t *testing.T, l look, url string) *tab {
	t.Helper()
	b := newTab(t, l, url)
	b.visit(url)
	return b
}

// newTab is an empty tab for pages of the address's origin.
func newTab(t *testing.T, l look, url string) *tab {
	t.Helper()
	browser.once.Do(func() { browser.err = startBrowser() })
	if browser.err != nil {
		unable(t, browser.err.Error())
	}
	ctx, stop := chromedp.NewContext(browser.ctx)
	t.Cleanup(stop)
	b := &tab{T: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.watch(url)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	var view []chromedp.EmulateViewportOption
	if l.phone {
		view = append(view, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(chromedp.EmulateViewport(l.width, l.height, view...), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		if err == nil {
			_, err = cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		}
		return err
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.provoked {
			return
		}
		for _, e := range b.errors {
			t.Error("console: " + e)
		}
		for _, e := range b.foreign {
			t.Error("a request to another place: " + e)
		}
	})
	return b
}

// watch collects errors of the console and requests that leave the origin.
func (b *tab) watch(url string) {
	origin := strings.Join(strings.SplitN(url+"/", "/", 4)[:3], "/") + "/"
	messages, requests := chromedp.Console(b.ctx), chromedp.Events(b.ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			// What the page asks for and is refused shows in the page.
			refused := m.Source == "network" && strings.Contains(m.Text, "the server responded with a status of")
			if (m.IsException() || m.Type == "error" || m.Source == "security") && !refused {
				b.mu.Lock()
				b.errors = append(b.errors, m.String())
				b.mu.Unlock()
			}
		}
	}()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		return err
	}))
	go func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			if u := e.Request.URL; !strings.HasPrefix(u, origin) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:"+origin) {
				b.mu.Lock()
				b.foreign = append(b.foreign, u)
				b.mu.Unlock()
			}
		}
	}()
}

const patience = 20 * time.Second

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// visit goes to an address and waits until the page is usable.
func (b *tab) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("html[data-ready]")))
	b.idle()
}

// idle waits until no search is under way.
func (b *tab) idle() { b.Helper(); b.wait(`!document.querySelector('[aria-busy]')`) }

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")")); err != nil {
		b.shot("failed")
		b.Fatalf("waiting for %s: %v", expression, err)
	}
}

// js evaluates an expression into v, which may be nil.
func (b *tab) js(expression string, v any) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	data, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err == nil && v != nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil && v != nil {
		b.Fatalf("%s: %v", expression, err)
	}
}

// text is what an element shows.
func (b *tab) text(css string) (s string) {
	b.Helper()
	b.js(fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, css), &s)
	return s
}

// count counts elements.
func (b *tab) count(css string) (n int) {
	b.Helper()
	b.js(fmt.Sprintf(`document.querySelectorAll(%q).length`, css), &n)
	return n
}

func (b *tab) click(css string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(css), chromedp.NodeVisible))
}

// press presses a key on what has the focus.
func (b *tab) press(key string) { b.Helper(); b.do(chromedp.KeyEvent(key)) }

// enter presses Enter as a keyboard does: when the page takes the key itself,
// nothing is typed into what then has the focus.
func (b *tab) enter() {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			e := input.DispatchKeyEventParams{Type: typ, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, NativeVirtualKeyCode: 13}
			if typ == input.DispatchKeyEventTypeKeyDown {
				e.Text, e.UnmodifiedText = "\r", "\r"
			}
			if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// ask types a query and waits for its hits.
func (b *tab) ask(query string) {
	b.Helper()
	b.js(`document.getElementById('q').select()`, nil)
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), query+"\r"))
	b.wait(fmt.Sprintf(`new URLSearchParams(location.search).get('q') === %q`, query))
	b.idle()
}

// shot keeps a screenshot of what is seen.
func (b *tab) shot(name string) {
	b.Helper()
	dir := os.Getenv("QUARRY_SCREENSHOTS")
	if dir == "" {
		dir = b.TempDir()
	}
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	path := filepath.Join(dir, name+".png")
	if err == nil {
		err = os.WriteFile(path, data, 0o666)
	}
	if err != nil {
		b.Fatalf("screenshot %s: %v", name, err)
	}
	b.Logf("screenshot: %s", path)
}
