//go:build linux

package workerd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// programsDir holds programs by digest, below the work directory.
	programsDir = "programs"
	// partSuffix ends the name of a file that is not whole yet.
	partSuffix = ".part"
)

// programSource reads a program from the driver of an application.
type programSource func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error

// programCache keeps the programs of applications by digest (design 8, ADR 0024): a file under its
// final name is whole and has the right digest. Of several executors that need one at the same time
// one fetches it. The files are the worker's: they survive restarts, and the oldest that nothing runs
// make room for new ones. Safe for concurrent use.
type programCache struct {
	dir    string
	budget int64
	log    hclog.Logger
	read   programSource
	http   *http.Client // for artifacts
	// inUse reports whether a process runs a file.
	inUse func(fs.FileInfo) (bool, error)

	ctx     context.Context //nolint:containedctx // of flights, which outlive the executor for which they began
	end     context.CancelFunc
	flying  sync.WaitGroup
	mu      sync.Mutex
	flights map[string]*programFlight // by digest
	held    map[string]int            // launches between get and its release, by digest
}

// programFlight is one attempt to get a program.
type programFlight struct {
	done chan struct{}
	err  error // read after done

	mu    sync.Mutex
	bytes int64 // of the program; 0 = not known yet
	got   int64
}

// openProgramCache makes the directory and removes what an earlier start has left unfinished.
func openProgramCache(dir string, budget int64, log hclog.Logger, read programSource) (*programCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of programs: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return nil, fmt.Errorf("directory of programs: %w", err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "*"+partSuffix))
	if err != nil {
		return nil, fmt.Errorf("directory of programs: %w", err)
	}
	for _, p := range parts {
		if err := os.Remove(p); err != nil {
			return nil, fmt.Errorf("directory of programs: %w", err)
		}
	}
	c := &programCache{
		dir: dir, budget: budget, log: log, read: read, inUse: runsProcess, http: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}},
		flights: make(map[string]*programFlight), held: make(map[string]int),
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c, nil
}

// close ends what is being fetched.
func (c *programCache) close() {
	c.end()
	c.flying.Wait()
}

// get returns the path of the program of an application and what says that it runs, or will not: until
// then it is not removed. It blocks until the program is there; with ctx's end only the wait is over,
// not the transfer. fetching is called once if it is not there yet.
func (c *programCache) get(ctx context.Context, o *model.LaunchOrder, fetching func()) (path string, release func(), err error) {
	p := o.Spec.Program
	return c.want(ctx, content{name: p.String(), sha256: p.SHA256, bytes: p.Bytes, bring: func(ctx context.Context, part *os.File, f *programFlight) (string, error) {
		if p.Path != "" && c.copyLocal(p, part) {
			return p.Path, nil
		}
		if err := c.fetch(ctx, o, part, f); err != nil {
			return "", fmt.Errorf("fetch it from the driver at %s: %w", o.Spec.DriverAddr, err)
		}
		return o.Spec.DriverAddr, nil
	}}, fetching)
}

// content is one file that the cache can bring.
type content struct {
	name   string // in messages
	sha256 string
	bytes  int64         // 0 = not known before it comes
	within time.Duration // bounds the transfer; 0 = programFetchTimeout
	late   error         // why it is given up then; nil = context.DeadlineExceeded
	// bring writes it, with the right digest, and returns where it came from.
	bring func(ctx context.Context, part *os.File, f *programFlight) (from string, err error)
}

// want is get for any content.
func (c *programCache) want(ctx context.Context, p content, fetching func()) (path string, release func(), err error) {
	path = filepath.Join(c.dir, p.sha256)
	for told := false; ; {
		flight, err := c.board(p) //nolint:contextcheck // others wait for the transfer too
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if flight == nil {
			return path, sync.OnceFunc(func() { c.unhold(p.sha256) }), nil
		}
		if !told {
			told = true
			fetching()
		}
		select {
		case <-flight.done:
			if flight.err != nil {
				return "", nil, fmt.Errorf("%s: %w", p.name, flight.err)
			}
		case <-ctx.Done():
			return "", nil, fmt.Errorf("%s has not come in time, %d of %d bytes are here: %w", p.name, flight.progress(), flight.size(), context.Cause(ctx))
		}
	}
}

// board finds the program, and then holds it, or the flight that brings it, which it begins if need
// be.
func (c *programCache) board(p content) (*programFlight, error) {
	if err := model.ValidDigest(p.sha256); err != nil { // it becomes a file's name
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[p.sha256]; f != nil {
		return f, nil
	}
	path := filepath.Join(c.dir, p.sha256)
	st, err := os.Lstat(path)
	switch {
	case err == nil && st.Mode().IsRegular() && (p.bytes == 0 || st.Size() == p.bytes):
		now := time.Now()
		if err := os.Chtimes(path, now, now); err != nil {
			return nil, fmt.Errorf("note its use: %w", err)
		}
		c.held[p.sha256]++
		return nil, nil //nolint:nilnil // documented
	case err == nil:
		return nil, fmt.Errorf("%w: %s has %d bytes where the application's description says %d", model.ErrInvalid, path, st.Size(), p.bytes)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if c.ctx.Err() != nil {
		return nil, errAgentEnded
	}
	if err := c.makeRoomLocked(p.bytes); err != nil {
		return nil, err
	}
	f := &programFlight{done: make(chan struct{}), bytes: p.bytes}
	c.flights[p.sha256] = f
	c.flying.Go(func() {
		ctx, cancel := context.WithTimeoutCause(c.ctx, cmp.Or(p.within, programFetchTimeout), p.late)
		defer cancel()
		err := c.bring(ctx, p, f)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, p.sha256)
		f.err = err
		close(f.done)
	})
	return f, nil
}

func (c *programCache) unhold(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[digest]--; c.held[digest] <= 0 {
		delete(c.held, digest)
	}
}

// size is how big the content is, as far as it is known.
func (f *programFlight) size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

func (f *programFlight) progress() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

// bring puts the program under its final name.
func (c *programCache) bring(ctx context.Context, p content, f *programFlight) (err error) {
	began := time.Now()
	part, err := os.CreateTemp(c.dir, p.sha256+".*"+partSuffix)
	if err != nil {
		return fmt.Errorf("make room for it on the worker's disk: %w", err)
	}
	defer func() {
		err = errors.Join(err, part.Close())
		if err != nil {
			_ = os.Remove(part.Name()) // best effort; the next start does it otherwise
		}
	}()
	from, err := p.bring(ctx, part, f)
	if err != nil {
		return err
	}
	st, err := part.Stat()
	if err != nil {
		return onDisk(err)
	}
	if err := errors.Join(part.Chmod(0o700), part.Sync()); err != nil { //nolint:gosec // it is to be executed
		return onDisk(err)
	}
	if err := os.Rename(part.Name(), filepath.Join(c.dir, p.sha256)); err != nil {
		return onDisk(err)
	}
	if err := syncDir(c.dir); err != nil {
		return onDisk(err)
	}
	c.log.Info("program is here", "program", p.name, "bytes", st.Size(), "from", from, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// onDisk says that the worker's disk is at fault, not the driver.
func onDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("no space left for it on the worker's disk: %w", err)
	}
	return fmt.Errorf("write it to the worker's disk: %w", err)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// copyLocal takes the program from its path on this machine; false if the file there is another one.
// It is copied because whoever may write there must not change what runs here.
func (c *programCache) copyLocal(p model.Program, part *os.File) bool {
	err := func() error {
		in, err := os.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never blocks on what is no file
		if err != nil {
			return err
		}
		defer in.Close() // read only
		st, err := in.Stat()
		switch {
		case err != nil:
			return err
		case !st.Mode().IsRegular():
			return fmt.Errorf("%w: no regular file", model.ErrInvalid)
		case st.Size() != p.Bytes:
			return fmt.Errorf("%w: it has %d bytes instead of %d", model.ErrInvalid, st.Size(), p.Bytes)
		}
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(part, h), io.LimitReader(in, p.Bytes+1)); err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != p.SHA256 {
			return fmt.Errorf("%w: its digest is %s", model.ErrInvalid, got)
		}
		return nil
	}()
	if err == nil {
		return true
	}
	c.log.Info("the program's path is of no use here, its driver is asked", "path", p.Path, "err", err)
	_, serr := part.Seek(0, io.SeekStart)
	if err := errors.Join(serr, part.Truncate(0)); err != nil {
		c.log.Warn("a half copied program", "err", err) // its digest will be wrong
	}
	return false
}

// fetch reads the program from the driver. A transfer that breaks goes on where it was; one on which
// nothing has come for programPatience is given up.
func (c *programCache) fetch(ctx context.Context, o *model.LaunchOrder, part *os.File, f *programFlight) error {
	w := &programWriter{to: part, hash: sha256.New(), flight: f}
	pause, last := backoffFirst, time.Now()
	for {
		before := w.flight.progress()
		err := c.read(ctx, o, before, w.take)
		if w.flight.progress() > before {
			pause, last = backoffFirst, time.Now()
		}
		switch {
		case w.err != nil:
			return w.err
		case err == nil && w.flight.progress() < f.size():
			err = fmt.Errorf("%w: the driver ended the transfer after %d of %d bytes", model.ErrUnavailable, w.flight.progress(), f.size())
		case err == nil:
			return w.check(o.Spec.Program.SHA256)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if !errors.Is(err, model.ErrUnavailable) || time.Since(last) > programPatience {
			return err
		}
		c.log.Debug("a program has not come whole", "program", o.Spec.Program.String(), "bytes", w.flight.progress(), "err", err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		pause = min(2*pause, backoffMax)
	}
}

// programWriter checks what comes while it is written.
type programWriter struct {
	to     *os.File
	hash   hash.Hash
	flight *programFlight
	err    error // final: asking again does not help
}

func (w *programWriter) take(data []byte) error {
	if over := w.flight.progress() + int64(len(data)); over > w.flight.size() {
		w.err = fmt.Errorf("%w: the driver sends more than the %d bytes that it has announced", model.ErrInvalid, w.flight.size())
		return w.err
	}
	if _, err := w.to.Write(data); err != nil {
		w.err = onDisk(err)
		return w.err
	}
	_, _ = w.hash.Write(data) // never fails
	w.flight.mu.Lock()
	w.flight.got += int64(len(data))
	w.flight.mu.Unlock()
	return nil
}

func (w *programWriter) check(want string) error {
	if got := hex.EncodeToString(w.hash.Sum(nil)); got != want {
		return fmt.Errorf("%w: what the driver sent has the digest %s, its application's description says %s", model.ErrInvalid, got, want)
	}
	return nil
}

// makeRoomLocked removes the programs that were used longest ago until so many bytes fit into the
// budget.
func (c *programCache) makeRoomLocked(need int64) error {
	if need > c.budget {
		return fmt.Errorf("%w: it has %d bytes, the worker keeps %d for programs", model.ErrTooLarge, need, c.budget)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("list programs: %w", err)
	}
	var files []fs.FileInfo
	used := need
	for _, f := range c.flights {
		used += f.size()
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || strings.HasSuffix(e.Name(), partSuffix) {
			continue // it has just gone, or is counted as a flight
		}
		used += info.Size()
		files = append(files, info)
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if used <= c.budget {
			return nil
		}
		if c.held[info.Name()] > 0 {
			continue
		}
		path := filepath.Join(c.dir, info.Name())
		if busy, err := c.inUse(info); err != nil || busy {
			continue // when in doubt it stays
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("make room for it: %w", err)
		}
		used -= info.Size()
		c.log.Info("removed a program that nothing runs", "sha256", info.Name(), "bytes", info.Size())
	}
	if used > c.budget {
		return fmt.Errorf("%w: programs that run here take the %d bytes that the worker keeps for them", model.ErrTooLarge, c.budget)
	}
	return nil
}

// runsProcess reports whether any process of this machine runs a file. Processes of other users
// cannot be looked at; they do not run a file in a directory that only this user may enter.
func runsProcess(file fs.FileInfo) (bool, error) {
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return false, err
	}
	for _, exe := range exes {
		if st, err := os.Stat(exe); err == nil && os.SameFile(st, file) {
			return true, nil
		}
	}
	return false, nil
}

// driverSource reads programs from drivers over the network.
func driverSource(dial rpc.DialFunc) programSource {
	return func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error {
		conn, err := rpc.Dial(o.Spec.DriverAddr, rpc.DialConfig{TLS: tlsconf.Pinned(o.Spec.DriverCert), Dial: dial})
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // nothing is under way any more
		req := rpc.ContentRequest{Executor: o.Ref, Secret: o.Secret, SHA256: o.Spec.Program.SHA256, Offset: offset}
		return rpc.ContentClient(conn).ReadContent(ctx, req, func(c rpc.ContentChunk) error {
			if c.Bytes != o.Spec.Program.Bytes {
				return fmt.Errorf("%w: the driver has a program of %d bytes, its application's description says %d", model.ErrInvalid, c.Bytes, o.Spec.Program.Bytes)
			}
			return take(c.Data)
		})
	}
}
