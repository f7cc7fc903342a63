package recordlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/atomicfile"
)

// SyncDelay is how long a record waits for others before the file is synced.
const SyncDelay = 20 * time.Millisecond

// DamagedSuffix follows the name of a file that was set aside.
const DamagedSuffix = ".damaged"

// errBroken refuses records until the file is rewritten.
var errBroken = errors.New("an earlier write failed half-way, or could not be brought to the disk")

// Format says what a file looks like. Header is what it begins with, Limit how
// many bytes a payload may have.
type Format struct {
	Header string
	Limit  int
}

// Log is an open file of records. Its methods may be called concurrently.
type Log struct {
	path   string
	format Format

	mu      sync.Mutex // guards what follows; held for a write, never for a sync
	f       *os.File   // nil once closed
	size    int64      // of whole records with the header
	records int
	broken  bool
	dirty   bool        // something has been written since the last sync began
	timer   *time.Timer // of the next sync; nil while none is due

	syncing sync.Mutex    // one sync at a time; never taken with mu held
	since   time.Time     // when the one under way began, by mu; zero without one
	ended   chan struct{} // closed when that one has ended, by mu
	sync    func(*os.File) error
}

// Scan calls each with every payload of b, which has the header, until that
// fails, and returns how many bytes were good. The error wraps
// io.ErrUnexpectedEOF if b merely ends within a record.
func Scan(b []byte, format Format, each func(payload []byte) error) (valid int, err error) {
	if h := format.Header; len(b) < len(h) && h[:len(b)] == string(b) {
		return 0, fmt.Errorf("header: %w", io.ErrUnexpectedEOF)
	} else if len(b) < len(h) || string(b[:len(h)]) != h {
		return 0, errors.New("not a file of this kind and version")
	}
	valid = len(format.Header)
	for valid < len(b) {
		payload, n, err := Decode(b[valid:], format.Limit)
		if err == nil {
			err = each(payload)
		}
		if err != nil {
			return valid, err
		}
		valid += n
	}
	return valid, nil
}

// Read gives the payloads in the file at path to each, in order; a missing file
// has none. A record that was cut short at the end is left out. Damage anywhere
// else, a payload that each refuses included, means that what follows cannot be
// trusted: the file is set aside as PATH.damaged, and what was read before counts.
// note says what was wrong, "" if nothing was.
func Read(path string, format Format, each func(payload []byte) error) (note string, err error) {
	b, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read records: %w", err)
	}
	if len(b) == 0 {
		return "", nil
	}
	count := 0
	valid, err := Scan(b, format, func(payload []byte) error {
		if err := each(payload); err != nil {
			return err
		}
		count++
		return nil
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("the last record of %s was cut short and is dropped (%d bytes)", path, len(b)-valid), nil
	case err != nil:
		if err := os.Rename(path, path+DamagedSuffix); err != nil {
			return "", fmt.Errorf("set damaged file aside: %w", err)
		}
		return fmt.Sprintf("%s is damaged at byte %d (%v): set aside as %s, the %d records before are kept",
			path, valid, err, path+DamagedSuffix, count), nil
	}
	return "", nil
}

// Create replaces the file at path by one of these payloads, which is on disk
// when it returns, and opens that for appending.
func Create(path string, format Format, payloads ...[]byte) (*Log, error) {
	l := &Log{path: path, format: format, sync: datasync}
	if err := l.Rewrite(payloads...); err != nil {
		return nil, err
	}
	return l, nil
}

// Append writes records, all or none. They survive the end of this process when
// it returns nil, and a power cut a little later. After a failure the file holds
// what it held before, or nothing is appended any more until a Rewrite.
func (l *Log) Append(payloads ...[]byte) error {
	var b []byte
	for _, p := range payloads {
		var err error
		if b, err = AppendFrame(b, p, l.format.Limit); err != nil {
			return err
		}
	}
	return l.AppendFrames(b, len(payloads))
}

// AppendFrames is Append for n records that AppendFrame has made.
func (l *Log) AppendFrames(b []byte, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken:
		return fmt.Errorf("append to %s: %w", l.path, errBroken)
	case l.f == nil:
		return fmt.Errorf("append to %s: %w", l.path, fs.ErrClosed)
	case len(b) == 0:
		return nil
	}
	if _, err := l.f.Write(b); err != nil {
		cut := l.f.Truncate(l.size)
		l.broken = cut != nil
		return fmt.Errorf("append to %s: %w", l.path, errors.Join(err, cut))
	}
	l.size += int64(len(b))
	l.records += n
	l.dirty = true
	l.arm()
	return nil
}

// arm has the file synced after SyncDelay; mu is held.
func (l *Log) arm() {
	if l.timer == nil {
		l.timer = time.AfterFunc(SyncDelay, l.due)
	}
}

// due syncs what has been written by now.
func (l *Log) due() {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	l.timer = nil // what is written from now on may miss this sync
	f := l.f
	if f == nil || !l.dirty {
		l.mu.Unlock()
		return
	}
	l.dirty = false
	l.since, l.ended = time.Now(), make(chan struct{})
	l.mu.Unlock()

	err := l.sync(f)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
	close(l.ended)
	if err != nil && l.f == f { // else a rewrite has brought all of it to the disk
		// The kernel may have dropped the pages: only writing all of it again helps.
		l.broken = true
	}
}

// datasync is fdatasync(2): with the new size, which is needed to read it back.
// The descriptor stays open meanwhile even if the file is closed.
func datasync(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	if err := raw.Control(func(fd uintptr) { syncErr = unix.Fdatasync(int(fd)) }); err != nil { //nolint:gosec // a descriptor
		return err
	}
	return syncErr
}

// Stuck returns a channel that closes when the sync under way has ended, if that
// has begun more than patience ago, and nil otherwise: a disk that hangs shows
// itself to nobody else.
func (l *Log) Stuck(patience time.Duration) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || time.Since(l.since) <= patience {
		return nil
	}
	return l.ended
}

// Rewrite replaces the file by one with just these records. It is on disk when
// it returns nil.
func (l *Log) Rewrite(payloads ...[]byte) error {
	b := []byte(l.format.Header)
	var err error
	for _, p := range payloads {
		if b, err = AppendFrame(b, p, l.format.Limit); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := atomicfile.Write(l.path, b, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open %s again: %w", l.path, err)
	}
	if l.f != nil {
		_ = l.f.Close()
	}
	l.f, l.size, l.records, l.broken, l.dirty = f, int64(len(b)), len(payloads), false, false
	return nil
}

// Size returns how many bytes and records the file has, and whether nothing can
// be appended before a Rewrite.
func (l *Log) Size() (bytes int64, records int, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.records, l.broken
}

// Close brings to the disk what is not there yet and closes the file. Idempotent.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	l.due()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	if l.broken {
		err = errors.Join(fmt.Errorf("close %s: %w", l.path, errBroken), err)
	}
	return err
}
