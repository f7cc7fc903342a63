//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// logFile is one output file and its older generations. One goroutine uses it at a time.
type logFile struct {
	path string
	max  int64 // 0 means never rotate
	keep int
	f    *os.File // nil after a failed reopen
	size int64
	lost int64 // bytes dropped since the last successful write
	bol  bool  // the last byte written ended a line
}

// openLog opens path for appending. The directory may belong to the process's user, so a link or a
// device put there under that name is refused rather than followed.
func openLog(path string, rot Rotation) (*logFile, error) {
	l := &logFile{path: path, max: rot.MaxBytes, keep: rot.KeepFiles, bol: true}
	if l.max == 0 {
		l.max = DefaultRotateBytes
	}
	if l.keep == 0 {
		l.keep = DefaultRotateFiles
	}
	if rot.Disabled {
		l.max = 0
	}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open output file: %w", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	flags := os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(l.path, flags, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", l.path)
	}
	if err == nil {
		// The process may get this very description, and expects it to block.
		err = unix.SetNonblock(int(f.Fd()), false)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// write appends p, rotating at line ends where lines are short enough. It never fails: a process
// must not block or die because a disk is full. What could not be written is counted, and a line
// says so as soon as writing works again.
func (l *logFile) write(p []byte) {
	for len(p) > 0 {
		n := l.cut(p)
		if n == 0 {
			l.rotate()
			continue
		}
		l.put(p[:n])
		p = p[n:]
	}
}

// cut returns how much of p goes into the current file, 0 if it is full.
func (l *logFile) cut(p []byte) int {
	room := l.max - l.size
	if l.max == 0 || int64(len(p)) <= room {
		return len(p)
	}
	if room <= 0 {
		if l.size == 0 {
			return len(p)
		}
		return 0
	}
	if end := bytes.LastIndexByte(p[:room], '\n') + 1; end > 0 {
		return end
	}
	if l.bol && l.size > 0 {
		return 0 // the line fits better at the start of the next file
	}
	return int(room)
}

func (l *logFile) put(p []byte) {
	if l.f == nil && l.open() != nil {
		l.lost += int64(len(p))
		l.size += int64(len(p)) // as if written, or write would not progress
		return
	}
	if l.lost > 0 {
		note := fmt.Sprintf("[hearth: %d bytes of output could not be written and are lost]\n", l.lost)
		if _, err := l.f.WriteString(note); err == nil {
			l.size += int64(len(note))
			l.lost = 0
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	if err != nil {
		l.lost += int64(len(p) - n)
		l.size += int64(len(p) - n)
	}
	l.bol = p[len(p)-1] == '\n'
}

// rotate starts a new file. If that fails the old one is used for another round.
func (l *logFile) rotate() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
	var err error
	if l.keep == 1 {
		err = os.Remove(l.path)
	} else {
		for i := l.keep - 1; i >= 1; i-- {
			if e := os.Rename(l.generation(i-1), l.generation(i)); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	openErr := l.open() // on failure put tries again
	if err != nil || openErr != nil {
		l.size = 0
	}
	l.bol = true
}

func (l *logFile) generation(i int) string {
	if i == 0 {
		return l.path
	}
	return l.path + "." + strconv.Itoa(i)
}

func (l *logFile) close() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// stream carries one output of one process into its file.
type stream struct {
	log *logFile
	// child is the descriptor the process gets; closed by the keeper after the spawn.
	child *os.File
	// r is the reading end of the pipe, nil if the process writes to the file itself.
	r       *os.File
	buffers *sync.Pool    // of *[copyBufferBytes]byte, for the time of one read
	done    chan struct{} // closed when copying has ended
}

// openStream opens the file at path, writes header to it and prepares what the process gets. A pipe
// is given to user, or opening /dev/stdout would be refused to it.
func openStream(path, header string, rot Rotation, user *User, buffers *sync.Pool) (*stream, error) {
	log, err := openLog(path, rot)
	if err != nil {
		return nil, err
	}
	st := &stream{log: log, buffers: buffers, done: make(chan struct{})}
	if header != "" {
		log.write([]byte(header))
	}
	if rot.Disabled {
		if log.f == nil {
			return nil, fmt.Errorf("open output file %s: it went away", path)
		}
		st.child = log.f
		return st, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		log.close()
		return nil, fmt.Errorf("open output pipe: %w", err)
	}
	st.child = os.NewFile(uintptr(fds[1]), "output pipe")
	// Non-blocking on the keeper's end only, so that reading can be given a deadline.
	err = unix.SetNonblock(fds[0], true)
	st.r = os.NewFile(uintptr(fds[0]), "output pipe")
	if err == nil && user != nil {
		err = unix.Fchown(fds[1], int(user.UID), int(user.GID))
	}
	if err != nil {
		st.discard()
		return nil, fmt.Errorf("set up output pipe: %w", err)
	}
	return st, nil
}

// discard releases everything of a stream whose process was not started.
func (st *stream) discard() {
	_ = st.child.Close()
	if st.r != nil {
		_ = st.r.Close()
		st.log.close()
	}
}

// start is called once the process has its descriptor: it closes the keeper's copy and copies
// until every holder of the pipe is gone or stop is called.
func (st *stream) start() {
	_ = st.child.Close()
	if st.r == nil {
		close(st.done)
		return
	}
	go st.copy()
}

func (st *stream) copy() {
	defer close(st.done)
	defer st.log.close()
	defer func() { _ = st.r.Close() }()
	raw, err := st.r.SyscallConn()
	for more := true; more && err == nil; {
		err = raw.Read(func(fd uintptr) (ready bool) {
			more, ready = st.copyOnce(int(fd)) //nolint:gosec // a descriptor
			return ready
		})
	}
}

// copyOnce copies what is in the pipe, up to a buffer. It has one only while there is something: most
// processes write little, and there may be thousands of them.
func (st *stream) copyOnce(fd int) (more, ready bool) {
	buf, ok := st.buffers.Get().(*[copyBufferBytes]byte)
	if !ok {
		buf = new([copyBufferBytes]byte)
	}
	defer st.buffers.Put(buf)
	for {
		n, err := unix.Read(fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return true, false
		case err != nil || n <= 0:
			return false, true
		default:
			st.log.write(buf[:n])
			return true, true
		}
	}
}

// stop ends copying even though somebody still holds the pipe. It may be called at any time.
func (st *stream) stop() {
	if st.r != nil {
		_ = st.r.SetReadDeadline(time.Unix(1, 0))
	}
	<-st.done
}
