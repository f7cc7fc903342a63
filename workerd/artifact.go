//go:build linux

package workerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// artifact returns the path of an artifact of a driver, like get: it is fetched once for each worker
// and digest.
func (c *programCache) artifact(ctx context.Context, a model.Artifact, fetching func()) (path string, release func(), err error) {
	return c.want(ctx, content{name: "artifact " + a.Name, sha256: a.SHA256, within: artifactWait, late: errTooSlow, bring: func(ctx context.Context, part *os.File, f *programFlight) (string, error) {
		d := &download{cache: c, artifact: a, part: part, flight: f, hash: sha256.New()}
		if err := d.run(ctx); err != nil {
			return "", fmt.Errorf("fetch it from %s: %w", a.URL, err)
		}
		return a.URL, nil
	}}, fetching)
}

// grow says how big a content is that is being fetched, and makes room for that.
func (c *programCache) grow(f *programFlight, bytes int64) error {
	if bytes > model.MaxProgramBytes {
		return fmt.Errorf("%w: it has %d bytes, the limit is %d", model.ErrTooLarge, bytes, int64(model.MaxProgramBytes))
	}
	if bytes > c.budget {
		return fmt.Errorf("%w: it has %d bytes, the worker keeps %d for programs and artifacts", model.ErrTooLarge, bytes, c.budget)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.mu.Lock()
	f.bytes = max(f.bytes, bytes)
	f.mu.Unlock()
	return c.makeRoomLocked(0)
}

// reachBy has artifacts fetched over a network that is not the operating system's.
func (c *programCache) reachBy(dial rpc.DialFunc) {
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) },
		DisableKeepAlives: true,
	}}
}

// growStep is how much room is made at a time for a content whose size its server does not say.
const growStep = 16 << 20

// errTooSlow ends a transfer, and the launches that wait for it. It is no outage of the worker's: a driver that wants what
// does not come in an hour would want it for ever.
var errTooSlow = fmt.Errorf("%w: not everything has come within %s", model.ErrUnavailable, artifactWait)

// download fetches one artifact into a file.
type download struct {
	cache    *programCache
	artifact model.Artifact
	part     *os.File
	flight   *programFlight
	hash     hash.Hash
}

// passingError marks a fault that may pass: asking again may help.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }

// errStalled ends one request from which nothing comes any more.
var errStalled = fmt.Errorf("%w: nothing has come for %s", model.ErrUnavailable, programPatience)

// run fetches until everything is there with the right digest. What breaks goes on where it was, if
// the server can do that; a server from which nothing comes for programPatience is given up.
func (d *download) run(ctx context.Context) error {
	u, err := url.Parse(d.artifact.URL)
	if err != nil {
		return fmt.Errorf("%w: %w", model.ErrInvalid, err)
	}
	if u.Scheme == "file" {
		if err := d.copy(u.Path); err != nil {
			return err
		}
		return d.check()
	}
	pause, last := backoffFirst, time.Now()
	for {
		before := d.flight.progress()
		err := d.attempt(ctx)
		if err == nil {
			return d.check()
		}
		if d.flight.progress() > before {
			pause, last = backoffFirst, time.Now()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, again := errors.AsType[passingError](err); !again || time.Since(last) > programPatience {
			return err
		}
		d.cache.log.Debug("an artifact has not come whole", "url", d.artifact.URL, "bytes", d.flight.progress(), "err", err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		pause = min(2*pause, backoffMax)
	}
}

// attempt asks the server once, for what is not there yet.
func (d *download) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(programPatience, func() { cancel(errStalled) })
	defer stalled.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.artifact.URL, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", model.ErrInvalid, err)
	}
	at := d.flight.progress()
	if at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	resp, err := d.cache.http.Do(req)
	if err != nil {
		return broken(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && at > 0 && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)):
	case resp.StatusCode == http.StatusOK:
		if err := d.restart(); err != nil {
			return err
		}
		at = 0
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return passingError{fmt.Errorf("%w: the server answers %s", model.ErrUnavailable, resp.Status)}
	default:
		return fmt.Errorf("%w: the server answers %s", model.ErrNotFound, resp.Status)
	}
	if resp.ContentLength >= 0 {
		if err := d.cache.grow(d.flight, at+resp.ContentLength); err != nil {
			return err
		}
	}
	err = d.take(resp.Body, func() { stalled.Reset(programPatience) })
	if _, read := errors.AsType[passingError](err); read {
		return broken(ctx, err)
	}
	return err
}

// broken says why a request came to nothing: what ended it, if something here did.
func broken(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		return passingError{errStalled}
	case cause != nil:
		return cause
	}
	return passingError{err}
}

// take writes what a reader has; came is called for each piece.
func (d *download) take(from io.Reader, came func()) error {
	buf := make([]byte, 256<<10)
	for {
		n, rerr := from.Read(buf)
		if n > 0 {
			came()
			if err := d.write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return passingError{rerr}
		}
	}
}

func (d *download) write(data []byte) error {
	over := d.flight.progress() + int64(len(data))
	if over > d.flight.size() {
		if err := d.cache.grow(d.flight, over+growStep); err != nil {
			if err := d.cache.grow(d.flight, over); err != nil { // the last step may be too big
				return err
			}
		}
	}
	if _, err := d.part.Write(data); err != nil {
		return onDisk(err)
	}
	_, _ = d.hash.Write(data) // never fails
	d.flight.mu.Lock()
	d.flight.got = over
	d.flight.mu.Unlock()
	return nil
}

// restart forgets what has come: the server sends everything again.
func (d *download) restart() error {
	_, serr := d.part.Seek(0, io.SeekStart)
	if err := errors.Join(serr, d.part.Truncate(0)); err != nil {
		return onDisk(err)
	}
	d.hash.Reset()
	d.flight.mu.Lock()
	d.flight.got = 0
	d.flight.mu.Unlock()
	return nil
}

// copy takes a file of this machine. It is copied because whoever may write there must not change
// what runs here.
func (d *download) copy(path string) error {
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never blocks on what is no file
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: no regular file", model.ErrInvalid)
	}
	if err := d.cache.grow(d.flight, st.Size()); err != nil {
		return err
	}
	return d.take(in, func() {})
}

func (d *download) check() error {
	if got := hex.EncodeToString(d.hash.Sum(nil)); got != d.artifact.SHA256 {
		return fmt.Errorf("%w: what is there has the digest %s, the driver's description says %s", model.ErrInvalid, got, d.artifact.SHA256)
	}
	return nil
}

// startArtifacts is start for a driver that wants files. Like startProgram it waits for them without
// one of the slots in which processes are started.
func (a *agent) startArtifacts(e effect) {
	a.jobs.Go(func() {
		late := context.WithoutCancel(a.keepers.ctx)
		ctx, cancel := context.WithTimeoutCause(a.keepers.ctx, artifactWait, errTooSlow)
		defer cancel()
		ctx, kill := context.WithCancelCause(ctx)
		defer kill(nil)
		paths := make([]string, 0, len(e.launch.Spec.Artifacts))
		watched := false
		for _, x := range e.launch.Spec.Artifacts {
			fetched, end := context.WithCancel(ctx)
			path, release, err := a.programs.artifact(ctx, x, func() {
				a.fetching(ctx, e.ref, !watched, kill)
				watched = true
				a.jobs.Go(func() { a.tellProgress(fetched, e.ref, x) })
			})
			end()
			if err != nil {
				a.startFailed(late, e.ref, err)
				return
			}
			defer release()
			paths = append(paths, path)
		}
		if !a.proceed(late, e.ref) {
			return
		}
		req, err := a.launcher.prepare(e.launch, a.masters.list())
		if err == nil {
			err = placeArtifacts(req.Stdout, e.launch.Spec.Artifacts, paths)
		}
		if err != nil {
			a.startFailed(late, e.ref, err)
			return
		}
		e.prepared = &req
		ctx, cancelStart := context.WithTimeout(a.keepers.ctx, keeperCallTimeout)
		defer cancelStart()
		a.start(ctx, e)
	})
}

// placeArtifacts copies artifacts into the directory of a driver, in which its stdout is. Each driver
// gets its own copy: what one does with it is nobody else's business.
func placeArtifacts(stdout string, list []model.Artifact, paths []string) error {
	root, err := os.OpenRoot(filepath.Dir(stdout))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i, x := range list {
		if err := placeArtifact(root, x, paths[i]); err != nil {
			return fmt.Errorf("place artifact %s: %w", x.Name, err)
		}
	}
	return nil
}

func placeArtifact(root *os.Root, x model.Artifact, path string) error {
	if x.Name == "stdout" || x.Name == "stderr" || !filepath.IsLocal(x.Name) {
		return fmt.Errorf("%w: the name is taken by the process's output, or leads elsewhere", model.ErrInvalid)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := root.MkdirAll(filepath.Dir(x.Name), 0o700); err != nil {
		return err
	}
	out, err := root.OpenFile(x.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil && x.Executable {
		err = out.Chmod(0o700)
	}
	return errors.Join(err, out.Close())
}

// tellProgress says every artifactTell how much of an artifact has come, as long as more comes: the
// leader is patient with a launch that gets on (fsm: reportAttempt). One that stands still ends by
// itself, see programPatience.
func (a *agent) tellProgress(ctx context.Context, ref model.ExecutorRef, x model.Artifact) {
	tick := time.NewTicker(artifactTell)
	defer tick.Stop()
	var told int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		got, size := a.programs.coming(x.SHA256)
		if got == told {
			continue
		}
		told = got
		if a.do(ctx, func() { a.table.fetched(ref, fetchingText(x.Name, got, size)) }) != nil {
			return
		}
	}
}

// fetchingText is what a person reads of a launch that waits; size is 0 if the server did not say.
func fetchingText(name string, got, size int64) string {
	if size > got {
		return fmt.Sprintf("fetching artifact %s: %d of %d bytes are here", name, got, size)
	}
	return fmt.Sprintf("fetching artifact %s: %d bytes are here", name, got)
}

// fetched is fetching with how far that is.
func (t *table) fetched(ref model.ExecutorRef, how string) {
	if e := t.execs[ref]; e != nil && e.starting && !e.report.State.Terminal() {
		r := e.report
		r.Reason = how
		t.reports.put(r)
	}
}

// coming is how much of a content that is being fetched has come, and how big it is as far as that is
// known.
func (c *programCache) coming(sha256 string) (got, size int64) {
	c.mu.Lock()
	f := c.flights[sha256]
	c.mu.Unlock()
	if f == nil {
		return 0, 0
	}
	return f.progress(), f.size()
}
