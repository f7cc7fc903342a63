//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// handle carries out one request that is no start and returns its answer. It takes milliseconds: whatever takes
// longer is reported by an event.
func (s *Server) handle(req *request) *reply {
	rep := &reply{ID: req.ID}
	var err error
	switch {
	case req.Kill != nil:
		err = s.handleKill(req.Kill)
	case req.Signal != nil:
		err = s.handleSignal(req.Signal)
	case req.List != nil:
		rep.List = s.list(req.List.After)
	case req.Forget != nil:
		err = s.forget(req.Forget.Key)
	case req.Keep != nil:
		err = s.keep(req.Keep)
	case req.Lease != nil:
		err = s.renew(*req.Lease)
	case req.Shutdown != nil:
		err = s.shutdown(req.Shutdown)
	}
	if err != nil {
		return refusal(req.ID, err)
	}
	return rep
}

// take checks a start and takes its key.
func (s *Server) take(req *StartRequest) (*entry, error) {
	if err := checkStart(req, s.cfg.WorkerID); err != nil {
		return nil, err
	}
	return s.reserve(req)
}

// started makes the process of an entry that is taken and returns the answer to its start.
func (s *Server) started(e *entry, req *request) *reply {
	p, err := s.start(e, req.Start)
	if err != nil {
		return refusal(req.ID, err)
	}
	return &reply{ID: req.ID, Start: p}
}

// start makes a process and returns once its program runs.
func (s *Server) start(e *entry, req *StartRequest) (*Started, error) {
	spec, err := s.equip(e, req)
	if err == nil {
		err = s.launch(e, spec)
	}
	if e.cgroup != nil {
		e.cgroup.opened()
	}
	if err != nil {
		s.abandon(e)
		return nil, fmt.Errorf("start %s: %w", e.key, err)
	}
	for _, st := range e.streams {
		st.start()
	}
	s.mu.Lock()
	started := &Started{Proc: e.proc, MemoryLimited: e.cgroup != nil && req.MemoryLimitMiB > 0}
	s.mu.Unlock()
	s.log.Info("process started", "key", e.key, "pid", started.PID)
	s.leaseChanged()
	go s.supervise(e)
	return started, nil
}

// reserve puts a starting entry under the request's key. An entry is active until it is exited or
// abandoned, and the end of the keeper waits for it.
func (s *Server) reserve(req *StartRequest) (*entry, error) {
	id, err := identityOf(req.Env)
	if err != nil {
		return nil, invalid("%s: %v", req.Key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, &Error{ReasonShuttingDown, "keeper is ending its children"}
	case s.entries[req.Key] != nil:
		return nil, &Error{ReasonDuplicateKey, req.Key + " is " + string(s.entries[req.Key].state)}
	case req.Leased && !s.leaseHolds():
		return nil, &Error{ReasonLeaseOver, req.Key + " may run under a lease only, and there is none in force"}
	case len(s.entries) >= MaxEntries:
		return nil, &Error{ReasonTooMany, fmt.Sprintf("%d keys are running or not forgotten", len(s.entries))}
	}
	if other := s.byID[id]; other != nil {
		return nil, invalid("%s: its environment names the same executor or driver as %s", req.Key, other.key)
	}
	e := newEntry(req.Key, id)
	e.leased = req.Leased
	s.entries[req.Key], s.byID[id] = e, e
	s.active.Add(1)
	return e, nil
}

// abandon undoes reserve and equip.
func (s *Server) abandon(e *entry) {
	for _, st := range e.streams {
		st.discard()
	}
	if e.cgroup != nil {
		e.cgroup.remove()
	}
	s.mu.Lock()
	delete(s.entries, e.key)
	delete(s.byID, e.id)
	s.mu.Unlock()
	s.active.Done()
}

// equip finds the program and opens what the process gets; on failure abandon releases it.
func (s *Server) equip(e *entry, req *StartRequest) (spawnSpec, error) {
	spec := spawnSpec{
		argv: req.Argv, env: req.Env, dir: req.Dir, user: req.RunAs,
		stdin: s.devNil.Fd(), cgroupFD: -1,
	}
	info, err := os.Stat(req.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", req.Dir)
	}
	if err != nil {
		return spec, &Error{ReasonBadDirectory, err.Error()}
	}
	for _, out := range []struct{ path, header string }{{req.Stdout, ""}, {req.Stderr, req.Header}} {
		st, err := openStream(out.path, out.header, req.Rotation, req.RunAs, &s.buffers)
		if err != nil {
			return spec, &Error{ReasonOutputFailed, err.Error()}
		}
		e.streams = append(e.streams, st)
	}
	spec.stdout, spec.stderr = e.streams[0].child.Fd(), e.streams[1].child.Fd()
	if spec.path, err = lookPath(req.Argv[0], req.Env, req.Dir); err != nil {
		return spec, s.noted(e, err)
	}
	if s.cgroup != nil {
		if e.cgroup, err = s.cgroup.create(e.key, req.MemoryLimitMiB); err != nil {
			return spec, &Error{ReasonSpawnFailed, err.Error()}
		}
		spec.cgroupFD = e.cgroup.fd
	}
	return spec, nil
}

// launch makes the process and notes its id before anybody can reap it.
func (s *Server) launch(e *entry, spec spawnSpec) error {
	s.reapMu.Lock()
	defer s.reapMu.Unlock()
	pid, err := s.spawn(spec)
	if err != nil {
		return s.noted(e, spawnError(spec, err))
	}
	stat, err := readStat(pid)
	if err != nil {
		// It is there until it is reaped, so this is a /proc that cannot be read: no basis to work on.
		_ = unix.Kill(-pid, unix.SIGKILL)
		return &Error{ReasonSpawnFailed, err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.proc = Proc{PID: pid, StartTicks: stat.start, BootID: s.info.Proc.BootID}
	e.state = StateRunning
	s.byPID[pid] = e
	return nil
}

// noted also puts the cause at the end of stderr, where the owner of the program will look.
func (s *Server) noted(e *entry, err error) error {
	text := err.Error()
	if typed, ok := errors.AsType[*Error](err); ok {
		text = typed.Detail
	}
	e.streams[1].log.write([]byte("could not be started: " + text + "\n"))
	return err
}

// find returns the entry of key; mu is held.
func (s *Server) find(key string) (*entry, error) {
	if e := s.entries[key]; e != nil {
		return e, nil
	}
	return nil, &Error{ReasonUnknownKey, fmt.Sprintf("%q", key)}
}

// handleKill is idempotent, and no error if the process has already ended.
func (s *Server) handleKill(req *killRequest) error {
	grace, err := duration(req.GraceMS, MaxGrace)
	if err != nil {
		return err
	}
	s.mu.Lock()
	e, err := s.find(req.Key)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.requestKill(e, time.Now().Add(grace), true)
	return nil
}

func (s *Server) handleSignal(req *signalRequest) error {
	if req.Signal < 1 || req.Signal > 64 {
		return invalid("signal %d", req.Signal)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(req.Key)
	if err != nil {
		return err
	}
	if e.state != StateRunning || e.reaped {
		return &Error{ReasonNotRunning, req.Key}
	}
	// Not reaped, so the number is still this process's.
	if err := unix.Kill(e.proc.PID, unix.Signal(req.Signal)); err != nil {
		return invalid("signal %s: %v", req.Key, err)
	}
	return nil
}

// list returns the entries behind the key after, in the order of their keys.
func (s *Server) list(after string) *listReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.entries))
	for key := range s.entries {
		if key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := &listReply{Entries: []Entry{}}
	if len(keys) > listPageEntries {
		keys, page.More = keys[:listPageEntries], true
	}
	for _, key := range keys {
		page.Entries = append(page.Entries, s.entries[key].view())
	}
	return page
}

// forget drops an exit the agent has stored for good. One that is not known is no error, so that a
// repeated Forget is none.
func (s *Server) forget(key string) error {
	s.mu.Lock()
	e := s.entries[key]
	if e != nil && e.state != StateExited {
		s.mu.Unlock()
		return &Error{ReasonStillRunning, key}
	}
	delete(s.entries, key)
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	if err := s.exits.forget(key); err != nil {
		// It comes back with the next keeper and is then reported and forgotten once more.
		s.log.Warn("exit not forgotten on disk", "key", key, "err", err)
	}
	return nil
}

// keep lets children run on for a while if the agent disconnects; with 0 it takes that back.
func (s *Server) keep(req *keepRequest) error {
	d, err := duration(req.ForMS, MaxKeep)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepTo = time.Time{}
	if d > 0 {
		s.keepTo = time.Now().Add(d)
	}
	return nil
}

func (s *Server) shutdown(req *shutdownRequest) error {
	grace, err := duration(req.GraceMS, MaxGrace)
	if err != nil {
		return err
	}
	s.finish(ending{why: "the agent asked for it", grace: grace})
	return nil
}

// of returns the cgroup of key for reading.
func (t *cgroupTree) of(key string) *cgroup {
	return &cgroup{dir: filepath.Join(t.dir, cgroupName(key))}
}
