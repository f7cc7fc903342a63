//go:build linux

package keeper

import (
	"errors"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reap waits for every child, also for orphans that were handed to the keeper as their subreaper.
// It is the only place that waits for a child. SIGCHLDs coalesce, so one means "look until there
// is no more"; the tick makes a lost one cost a moment.
func (s *Server) reap(stop <-chan struct{}) {
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, unix.SIGCHLD)
	defer signal.Stop(sigchld)
	tick := time.NewTicker(lastMemberPoll)
	defer tick.Stop()
	for {
		s.reapAll()
		select {
		case <-sigchld:
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func (s *Server) reapAll() {
	s.reapMu.Lock()
	defer s.reapMu.Unlock()
	found := false
	var ended []*entry
	for {
		pid, err := peekExited()
		if err != nil {
			s.log.Error("cannot wait for children", "err", err)
			break
		}
		if pid == 0 {
			break
		}
		if e := s.reapOne(pid); e != nil {
			ended = append(ended, e)
		}
		found = true
	}
	if !found {
		return
	}
	if len(ended) > 0 {
		s.noteGone(ended)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range ended {
		close(e.exited)
	}
	close(s.reaped)
	s.reaped = make(chan struct{})
}

// reapOne reaps the zombie pid. A main process keeps its number, and so that of its group, until it
// is reaped: the last moment to signal the group by number, atomically against forks in it. It returns
// whose main process that was, nil if nobody's.
func (s *Server) reapOne(pid int) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byPID[pid]
	if e != nil && (!e.killing || !time.Now().Before(e.killAt)) {
		s.signalGroup(e, unix.SIGKILL)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if e == nil {
		return nil
	}
	delete(s.byPID, pid)
	e.reaped, e.status, e.reapedAt = true, status, time.Now()
	return e
}

// waitInfo is the head of siginfo_t as waitid fills it. The union behind the first three numbers is
// aligned like a pointer, which the empty array expresses.
type waitInfo struct {
	signo, errno, code int32
	_                  [0]uintptr
	pid                int32
}

// peekExited returns the id of a child that has ended, without reaping it, and 0 if there is none.
func peekExited() (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return 0, nil
		case err != nil:
			return 0, err
		default:
			return int((*waitInfo)(unsafe.Pointer(&info)).pid), nil
		}
	}
}
