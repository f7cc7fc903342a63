//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Most executors are one process, and most ends are ends of those. To be sure of that, the kernel's
// lists of children suffice, which cost a few system calls where a scan costs three for each process of
// the machine. A kernel may lack them; then, and whenever there is any process that is not the main one
// of its key, a scan decides as ever.

// childListBytes holds a few hundred children of one thread.
const childListBytes = 4 << 10

// childLister reads lists of children. The zero value is ready; not for concurrent use.
type childLister struct {
	buf   []byte
	names []string
	pids  []int
}

// childListsHere reports whether this kernel has such lists (CONFIG_PROC_CHILDREN).
func childListsHere() bool {
	pid := strconv.Itoa(os.Getpid())
	return unix.Access("/proc/"+pid+"/task/"+pid+"/children", unix.R_OK) == nil
}

// of returns the children of all threads of a process; they are overwritten by the next call. A child
// that is there all the time is not missed as long as nobody waits for another one meanwhile: the list of
// a thread grows at its end. What a thread leaves behind goes to the first one that lives, so that one is
// read last.
func (l *childLister) of(pid int) ([]int, error) {
	first := strconv.Itoa(pid)
	base := "/proc/" + first + "/task"
	if err := l.list(base); err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	threads := append(slices.DeleteFunc(l.names, func(t string) bool { return t == first }), first)
	l.pids = l.pids[:0]
	for _, t := range threads {
		b, err := l.read(base + "/" + t + "/children")
		if isGone(err) && t != first {
			continue // the thread has ended: its children are another one's now
		}
		if err != nil {
			return nil, fmt.Errorf("list children of process %d: %w", pid, err)
		}
		for word := range bytes.FieldsSeq(b) {
			child, err := strconv.Atoi(string(word))
			if err != nil {
				return nil, fmt.Errorf("list children of process %d: %w", pid, err)
			}
			l.pids = append(l.pids, child)
		}
	}
	return l.pids, nil
}

// list puts the names in a directory into l.names.
func (l *childLister) list(dir string) error {
	fd, err := openProc(dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	l.room()
	l.names = l.names[:0]
	for {
		n, err := unix.ReadDirent(fd, l.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		_, _, l.names = unix.ParseDirent(l.buf[:n], -1, l.names)
	}
}

// read returns what is in a file; it is overwritten by the next call.
func (l *childLister) read(path string) ([]byte, error) {
	fd, err := openProc(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	l.room()
	for n := 0; ; {
		if n == len(l.buf) {
			l.buf = append(l.buf, make([]byte, len(l.buf))...)
		}
		got, err := unix.Read(fd, l.buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case got == 0:
			return l.buf[:n], nil
		default:
			n += got
		}
	}
}

func (l *childLister) room() {
	if l.buf == nil {
		l.buf = make([]byte, childListBytes)
	}
}

// strayChildren reports whether the keeper has a child that is not the main process of a key: something
// that such a process has left behind. reapMu is held, so that nobody waits for a child, and none is made.
//
// What a key has beside its main process descends from that, and goes to the keeper as its subreaper
// when the parent ends. So once a main process has ended, and there is no stray child, nothing of its key
// is left, be it in another process group, session or namespace.
func (s *Server) strayChildren() (bool, error) {
	children, err := s.children.of(s.info.Proc.PID)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(children, func(pid int) bool { return s.byPID[pid] == nil }), nil
}

// noteGone notes of entries whose main processes have just been reaped whether anything of them is left;
// reapMu is held.
func (s *Server) noteGone(ended []*entry) {
	if !s.childLists {
		return
	}
	stray, err := s.strayChildren()
	if err != nil || stray {
		return // a scan finds out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range ended {
		e.gone = true
	}
}

// lone reports whether the main process of e lives and is all that there is of e, and reads its status.
// When in doubt it is not.
func (s *Server) lone(e *entry) (main procStat, lone bool) {
	s.mu.Lock()
	id, reaped := procID{e.proc.PID, e.proc.StartTicks}, e.reaped
	s.mu.Unlock()
	if !s.childLists || reaped {
		return procStat{}, false
	}
	if stray, err := s.strays.get(); err != nil || stray {
		return procStat{}, false
	}
	var lister childLister
	if children, err := lister.of(id.pid); err != nil || len(children) > 0 {
		return procStat{}, false
	}
	main, err := readStat(id.pid) // after that: it was the one whose children were read if it still is
	return main, err == nil && main.procID == id && !main.dead()
}
