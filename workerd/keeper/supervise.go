//go:build linux

package keeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// entry is one key. Fields above the line never change after the entry is in the server's map;
// those below are guarded by Server.mu. streams and cgroup belong to the starting request until
// the process runs, then to supervise.
type entry struct {
	key     string
	id      identity
	leased  bool
	exited  chan struct{} // closed when the main process was reaped
	killed  chan struct{} // holds a token when killAt was set or moved forward
	streams []*stream
	cgroup  *cgroup

	// ---
	state     State
	proc      Proc
	reaped    bool
	gone      bool // nothing was left when it was reaped
	status    unix.WaitStatus
	reapedAt  time.Time
	killing   bool      // killAt counts
	requested bool      // somebody asked for the end before the process ended by itself
	killAt    time.Time // when SIGTERM turns into SIGKILL
	stuck     bool
	leaseOver bool // the lease ran out while it lived
	exit      *Exit
	unsaved   bool // the exit file could not be written yet
}

func newEntry(key string, id identity) *entry {
	return &entry{
		key: key, id: id, state: StateStarting,
		exited: make(chan struct{}), killed: make(chan struct{}, 1),
	}
}

// loadedEntry is one whose exit an earlier keeper wrote down.
func loadedEntry(e Entry) *entry {
	return &entry{key: e.Key, state: StateExited, proc: e.Proc, exit: e.Exit}
}

// view is the entry as the agent sees it; mu is held.
func (e *entry) view() Entry {
	return Entry{
		Key: e.key, State: e.state, Proc: e.proc, Exit: e.exit,
		Killing: e.killing && e.state == StateRunning, Stuck: e.stuck && e.state == StateRunning,
	}
}

// requestKill has e ended, with SIGKILL from at on. A later request can only bring that forward.
func (s *Server) requestKill(e *entry, at time.Time, requested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state == StateExited || (e.killing && !at.Before(e.killAt)) {
		return
	}
	e.killing, e.killAt = true, at
	e.requested = e.requested || (requested && !e.reaped)
	select {
	case e.killed <- struct{}{}:
	default:
	}
}

// signalGroup signals the process group of e's main process; mu is held. The group's number cannot
// have gone to anybody else as long as the main process is not reaped.
func (s *Server) signalGroup(e *entry, sig unix.Signal) {
	if e.proc.PID > 0 && !e.reaped {
		_ = unix.Kill(-e.proc.PID, sig) // ESRCH: the main process has left its group and nobody is in it
	}
}

// supervise follows one process from its start until its exit is recorded.
func (s *Server) supervise(e *entry) {
	defer s.active.Done()
	select {
	case <-e.exited:
		s.requestKill(e, time.Now(), false) // what it left behind
	case <-e.killed:
	}
	s.endProcesses(e)
	s.collectOutput(e)
	s.record(e)
}

// endProcesses returns when the main process is reaped and nothing of the key is left. Until killAt
// every process gets SIGTERM once; from then on all get SIGKILL in every round. Each round looks
// before it kills: the descent of a process is best known while its parents live. A scan is no atomic
// view and may miss the child of a process that ended during it, so it takes two to find nothing. What
// is known to be one process needs none.
func (s *Server) endProcesses(e *entry) {
	told := make(map[procID]bool)
	nothing, failed := 0, false
	for poll := firstMemberPoll; !s.nothingLeft(e); poll = nextPoll(poll) {
		left, err := s.members(e)
		s.mu.Lock()
		reaped, killAt, reapedChan := e.reaped, e.killAt, s.reaped
		s.mu.Unlock()
		if err != nil && !failed {
			s.log.Warn("cannot look for processes", "key", e.key, "err", err)
		}
		failed = err != nil
		if reaped && !failed && len(left) == 0 {
			if nothing++; nothing == scansForGone {
				return
			}
			continue
		}
		nothing = 0
		now := time.Now()
		hard := !now.Before(killAt)
		if hard {
			s.kill(e, left)
		} else {
			s.terminate(e, left, told)
		}
		stuckAt := killAt.Add(s.cfg.StuckAfter)
		if hard && !now.Before(stuckAt) {
			s.reportStuck(e, left)
		}
		// Time decides when there is nothing to look for: before SIGKILL while the main process lives.
		wait := killAt.Sub(now)
		if hard || reaped {
			wait = poll
		}
		if hard && now.Before(stuckAt) {
			wait = min(wait, stuckAt.Sub(now))
		} else if !hard {
			wait = min(wait, killAt.Sub(now))
		}
		if e.await(wait, reaped, reapedChan) {
			poll = firstMemberPoll
		}
	}
}

// nothingLeft reports whether nothing of e was left when its main process was reaped.
func (s *Server) nothingLeft(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.gone
}

// await returns after d or when something happened that is worth a look, which it reports.
func (e *entry) await(d time.Duration, reaped bool, anyReaped <-chan struct{}) bool {
	exited := e.exited
	if reaped {
		exited = nil // is closed for good, what counts now is the rest
	} else {
		anyReaped = nil // children of other keys end all the time
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-anyReaped:
		return false
	case <-exited:
	case <-e.killed:
	}
	return true
}

// kill sends SIGKILL to everything of the key.
func (s *Server) kill(e *entry, left []procStat) {
	if e.cgroup != nil {
		e.cgroup.kill()
	}
	s.mu.Lock()
	s.signalGroup(e, unix.SIGKILL)
	s.mu.Unlock()
	for _, p := range left {
		_ = signalProc(p.procID, unix.SIGKILL) // gone, or tried again in the next round
	}
}

// terminate sends SIGTERM to everything of the key that has not had it, and SIGCONT so that a
// stopped process can act on it.
func (s *Server) terminate(e *entry, left []procStat, told map[procID]bool) {
	s.mu.Lock()
	main := procID{e.proc.PID, e.proc.StartTicks}
	group := !e.reaped && !told[main]
	if group {
		s.signalGroup(e, unix.SIGTERM)
		s.signalGroup(e, unix.SIGCONT)
		told[main] = true
	}
	s.mu.Unlock()
	for _, p := range left {
		inGroup := group && p.pgrp == main.pid
		// A main process that has left its own group is told by itself.
		if !inGroup && (!told[p.procID] || (group && p.procID == main)) {
			if signalProc(p.procID, unix.SIGTERM) == nil {
				_ = signalProc(p.procID, unix.SIGCONT)
			}
		}
		told[p.procID] = true
	}
}

// reportStuck tells the agent once that the key has outlived SIGKILL, and which process did.
func (s *Server) reportStuck(e *entry, left []procStat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.stuck || len(left) == 0 {
		return
	}
	e.stuck = true
	view := e.view()
	if e.reaped {
		view.Proc = Proc{PID: left[0].pid, StartTicks: left[0].start, BootID: e.proc.BootID}
	}
	s.log.Warn("process outlives SIGKILL", "key", e.key, "pid", view.Proc.PID)
	s.push(EventStuck, view)
}

// collectOutput waits for the output to be written, but not for ever: somebody outside may have
// been handed the pipe.
func (s *Server) collectOutput(e *entry) {
	bound := time.NewTimer(s.cfg.OutputWait)
	defer bound.Stop()
	for _, st := range e.streams {
		select {
		case <-st.done:
		case <-bound.C:
			bound.Reset(0) // the other stream has had its time too
			st.stop()
		}
	}
}

// record writes the exit down and then reports it. If the disk refuses, the exit is reported all
// the same: the agent must not wait for space, and the sweep tries again.
func (s *Server) record(e *entry) {
	oom := false
	if e.cgroup != nil {
		oom = e.cgroup.oomKilled()
		e.cgroup.remove()
	}
	s.mu.Lock()
	view := e.view()
	view.State, view.Killing, view.Stuck = StateExited, false, false
	view.Exit = exitOf(e.status, e.reapedAt, oom, e.requested)
	view.Exit.LeaseOver = e.leaseOver
	s.mu.Unlock()

	err := s.exits.save(view)
	if err != nil {
		s.log.Error("exit is not written", "key", e.key, "err", err)
	}
	s.boundOwnLog() // each process adds lines to it
	s.mu.Lock()
	defer s.mu.Unlock()
	e.state, e.exit, e.unsaved = StateExited, view.Exit, err != nil
	e.streams, e.cgroup = nil, nil
	delete(s.byID, e.id)
	for id, owner := range s.owned {
		if owner == e {
			delete(s.owned, id)
		}
	}
	s.log.Info("process ended", "key", e.key, "pid", e.proc.PID, "code", e.exit.Code, "signal", e.exit.Signal, "oom", oom)
	s.push(EventExited, view)
}

func exitOf(status unix.WaitStatus, at time.Time, oom, requested bool) *Exit {
	exit := &Exit{Code: status.ExitStatus(), Time: at.UTC(), OOMKilled: oom, KillRequested: requested}
	if status.Signaled() {
		exit.Code, exit.Signal = -1, int(status.Signal())
	}
	return exit
}
