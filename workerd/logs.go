//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// errTooManyReaders is answered when MaxLogReaders logs are being read.
var errTooManyReaders = fmt.Errorf("%d logs are being read at the same time: %w", MaxLogReaders, model.ErrUnavailable)

// logReader reads the output of executors. Safe for concurrent use.
type logReader struct {
	dir   *workDir
	alive func(context.Context, model.ExecutorRef) bool // it may still write
	slots chan struct{}                                 // one per log being read
}

func newLogReader(dir *workDir, alive func(context.Context, model.ExecutorRef) bool) *logReader {
	return &logReader{dir: dir, alive: alive, slots: make(chan struct{}, MaxLogReaders)}
}

// read implements rpc.WorkerService.ReadLog. Offsets count from the oldest byte that rotation has
// left when reading begins; with Follow, what is written meanwhile continues the count, rotated or
// not.
func (l *logReader) read(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	rel, err := refPath(req.Ref)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if req.Stream != rpc.LogStdout && req.Stream != rpc.LogStderr {
		return fmt.Errorf("read log of %s: stream %q: %w", req.Ref, req.Stream, model.ErrInvalid)
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return errTooManyReaders
	}
	alive := func() bool { return l.alive(ctx, req.Ref) }
	t := &tail{root: l.dir.root, path: rel + "/" + string(req.Stream), send: send, alive: alive}
	defer t.close()
	if err := t.run(ctx, req.Offset, req.Follow); err != nil {
		return fmt.Errorf("read %s of %s: %w", req.Stream, req.Ref, err)
	}
	return nil
}

// tail reads one log: PATH.N, the oldest part, up to PATH.1 and then PATH. The keeper rotates by
// renaming, so an open file stays the part it was.
type tail struct {
	root  *os.Root
	path  string
	send  func(rpc.LogChunk) error
	alive func() bool

	parts  []*os.File // not yet read to the end, the oldest first
	offset int64      // of the next byte
	buf    []byte
}

func (t *tail) run(ctx context.Context, offset int64, follow bool) error {
	t.buf = make([]byte, rpc.MaxLogChunk)
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	// A process that is about to start has no file yet: worth waiting for, if so asked.
	for {
		alive := t.alive()
		err := t.open(nil)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !alive || !follow {
			return fmt.Errorf("there is no such output here: %w", model.ErrNotFound)
		}
		if err := wait(ctx, tick.C); err != nil {
			return err
		}
	}
	if err := t.seek(offset); err != nil {
		return err
	}
	for {
		alive := t.alive() // before reading: what it wrote before its end is then read for sure
		if err := t.drain(ctx); err != nil {
			return err
		}
		if !follow {
			return nil
		}
		rotated, err := t.rotated()
		if err != nil {
			return err
		}
		if rotated {
			continue
		}
		if !alive {
			return nil
		}
		if err := wait(ctx, tick.C); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-tick:
		return nil
	}
}

// open opens the parts that are newer than after, or all if after is nil or has gone.
func (t *tail) open(after fs.FileInfo) error {
	var newest []*os.File // the newest first
	for i := range maxRotatedSegments {
		name := t.path
		if i > 0 {
			name += "." + strconv.Itoa(i)
		}
		f, info, err := t.openPart(name)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			break
		}
		if err != nil {
			closeAll(newest)
			return err
		}
		if after != nil && os.SameFile(after, info) {
			_ = f.Close()
			break
		}
		// A rotation between two of these calls shows the same part twice.
		if n := len(newest); n > 0 && sameFile(newest[n-1], info) {
			_ = f.Close()
			continue
		}
		newest = append(newest, f)
	}
	for _, f := range slices.Backward(newest) {
		t.parts = append(t.parts, f)
	}
	return nil
}

// openPart refuses what is no regular file: the directory belongs to the process.
func (t *tail) openPart(name string) (*os.File, fs.FileInfo, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %w", name, model.ErrRefused)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func sameFile(f *os.File, info fs.FileInfo) bool {
	other, err := f.Stat()
	return err == nil && os.SameFile(other, info)
}

// seek moves to offset; a negative one counts from the end. Beyond the end means the end.
func (t *tail) seek(offset int64) error {
	sizes := make([]int64, len(t.parts))
	var total int64
	for i, f := range t.parts {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		sizes[i] = info.Size()
		total += info.Size()
	}
	if offset < 0 {
		offset = max(0, total+offset)
	}
	t.offset = min(offset, total)
	skip := t.offset
	for i, size := range sizes {
		if skip < size || i == len(sizes)-1 {
			_, err := t.parts[0].Seek(skip, io.SeekStart)
			return err
		}
		skip -= size
		_ = t.parts[0].Close()
		t.parts = t.parts[1:]
	}
	return nil
}

// drain sends everything that is there and leaves only the last part open.
func (t *tail) drain(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.parts[0].Read(t.buf)
		if n > 0 {
			chunk := rpc.LogChunk{Offset: t.offset, Data: append([]byte(nil), t.buf[:n]...)}
			if err := t.send(chunk); err != nil {
				return err
			}
			t.offset += int64(n)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(t.parts) == 1 {
			return nil
		}
		_ = t.parts[0].Close()
		t.parts = t.parts[1:]
	}
}

// rotated looks whether the last part is no longer the current file; if so it is followed by those
// written since, and what was added to it before the rename is still read.
func (t *tail) rotated() (bool, error) {
	last := t.parts[0]
	info, err := last.Stat()
	if err != nil {
		return false, err
	}
	now, err := t.root.Lstat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between two renames, or removed: whoever is alive writes again
	}
	if err != nil {
		return false, err
	}
	if os.SameFile(info, now) {
		return false, nil
	}
	if err := t.open(info); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return len(t.parts) > 1, nil
}

func (t *tail) close() { closeAll(t.parts) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
