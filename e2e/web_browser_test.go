//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserPatience bounds what is waited for in a browser on a busy machine.
const browserPatience = 30 * time.Second

// browser is a headless one that notes what a user would not see: errors of the console, and requests.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
	notes    sync.WaitGroup
}

// newBrowser starts Chromium, or skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	if secure() {
		t.Skip("the browser has no certificate of the cluster; pages are tested over TLS without it")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine: `make web-test` installs it as root on Debian")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, end := chromedp.NewContext(alloc)
	b := &browser{ctx: ctx}
	t.Cleanup(func() {
		end()
		endAlloc()
		b.notes.Wait()
	})
	if err := chromedp.Do(ctx, chromedp.Func(b.listen)); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return b
}

// listen notes what happens in the page from now on.
func (b *browser) listen(ctx context.Context, target *chromedp.Target) error {
	if _, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	if _, err := cdp.Call(ctx, target, runtime.Enable, cdp.Empty{}); err != nil {
		return err
	}
	if _, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{}); err != nil { // violations of the policy are there
		return err
	}
	note(b, target, log.EntryAdded, func(e log.EventEntryAdded) {
		if level := fmt.Sprint(e.Entry.Level); level == "error" || level == "warning" {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	})
	note(b, target, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { b.requests = append(b.requests, e.Request.URL) })
	note(b, target, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) { b.errors = append(b.errors, e.ExceptionDetails.Text) })
	note(b, target, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if text := fmt.Sprint(e.Type); text == "error" || text == "warning" {
			b.errors = append(b.errors, text)
		}
	})
	return nil
}

// note takes in the events of one kind until the browser ends.
func note[E any](b *browser, target *chromedp.Target, kind cdp.Event[E], take func(E)) {
	events := cdp.Events(b.ctx, target, kind)
	b.notes.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			take(e)
			b.mu.Unlock()
		}
	})
}

// do runs actions within browserPatience.
func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("in the browser: %v", err)
	}
}

// open loads a page and waits until an element is seen.
func (b *browser) open(t *testing.T, address, element string) {
	t.Helper()
	b.do(t, chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(element)))
}

// eval asks the page.
func eval[T any](t *testing.T, b *browser, js string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for something in the page without loading it again.
func (b *browser) until(t *testing.T, what, js string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](js, chromedp.WithPollingTimeout(browserPatience), chromedp.WithPollingInterval(50*time.Millisecond))); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
	t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
}

// shot keeps a picture where HEARTH_WEB_SHOTS says.
func (b *browser) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("HEARTH_WEB_SHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// dark sets the colours that the user prefers.
func dark(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	return err
}

func TestTheStatusPageLivesInARealBrowser(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, size{masters: 3, workers: 2, cores: 4})
	shown := c.standbys(t)[0]
	b.open(t, "http://"+shown.HTTP+"/", ".tiles")
	for _, m := range c.masters {
		b.do(t, chromedp.WaitVisible(chromedp.CSS(`[id="`+m.ID+`"]`)))
	}
	for _, w := range c.workers {
		b.do(t, chromedp.WaitVisible(chromedp.CSS(`[id="`+w.ID+`"]`)))
	}
	eval[bool](t, b, `window.notReloaded = true`)
	app := c.run(t, "submit", "--name", "seen <live>", "--executors", "2", "--memory", "64m", "--", "sh", "-c", "while :; do date; sleep 1; done").wantCode(t, 0).app(t)
	b.until(t, "the new application is shown", fmt.Sprintf(`!!document.getElementById(%q) && document.getElementById(%q).textContent.includes("seen <live>")`, app, app))
	b.until(t, "its executors run", fmt.Sprintf(`document.getElementById(%q).dataset.v.startsWith("RUNNING 2")`, app))
	b.shot(t, "overview-light")
	b.do(t, chromedp.Func(dark))
	b.shot(t, "overview-dark")
	b.do(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile))
	if eval[bool](t, b, `document.documentElement.scrollWidth > document.documentElement.clientWidth`) {
		t.Error("on a phone the page is wider than the screen")
	}
	b.shot(t, "overview-phone")
	b.do(t, chromedp.EmulateViewport(1360, 900))

	leader := c.leader(t)
	leader.proc.kill9(t)
	b.until(t, "another leader is shown", fmt.Sprintf(
		`[...document.querySelectorAll('tr[data-v^="leader"]')].length === 1 && !document.querySelector('tr[data-v^="leader"]').id.includes(%q)`, leader.ID))
	if !eval[bool](t, b, `window.notReloaded === true`) {
		t.Error("the page was loaded anew instead of being updated")
	}
	c.restart(t, leader)
	b.open(t, "http://"+shown.HTTP+"/apps/"+string(app), "table.rows")
	b.shot(t, "app")
	b.open(t, fmt.Sprintf("http://%s/logs/%s/0/stdout", shown.HTTP, app), "[data-log]")
	length := eval[int](t, b, `document.querySelector("[data-log]").textContent.length`)
	b.until(t, "the log grows", fmt.Sprintf(`document.querySelector("[data-log]").textContent.length > %d`, length))
	b.shot(t, "log")
	b.open(t, "http://"+c.workers[0].HTTP+"/", "table.rows")
	b.shot(t, "worker")

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		t.Errorf("the console has errors:\n%s", strings.Join(b.errors, "\n"))
	}
	allowed := []string{shown.HTTP, c.workers[0].HTTP}
	for _, raw := range b.requests {
		if u, err := url.Parse(raw); err != nil || !slices.Contains(allowed, u.Host) {
			t.Errorf("the page asked %s", raw)
		}
	}
}
