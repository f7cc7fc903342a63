//go:build linux

package keeper

import (
	"maps"
	"time"

	"golang.org/x/sys/unix"
)

// The keeper is a child subreaper: what a child forks, and what those fork, stays below the keeper
// in the process tree whatever happens to the parents in between. So looking for what belongs to a
// key means to divide the keeper's descendants among the keys, and never to look beyond them.

// descendants returns every living process below the keeper, parents before children.
func (s *Server) descendants() ([]procStat, error) {
	procs, err := s.scans.get()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]procStat)
	for _, p := range procs {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var below []procStat
	queue := []int{s.info.Proc.PID}
	// Reading processes one by one is no atomic view: ids may come round, hence seen.
	seen := make(map[int]bool)
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		for _, p := range children[pid] {
			queue = append(queue, p.pid)
			if !p.dead() {
				below = append(below, p)
			}
		}
	}
	return below, nil
}

// members returns the living processes of e.
func (s *Server) members(e *entry) ([]procStat, error) {
	if main, ok := s.lone(e); ok {
		return []procStat{main}, nil
	}
	groups, err := s.divide()
	if err != nil {
		return nil, err
	}
	return groups[e], nil
}

// divide assigns every descendant to its key; those of unknown descent are under nil. A process
// goes with its parent. If that is gone and the process was handed to the keeper, the memory of
// earlier scans counts, then its process group, its cgroup, and last its environment.
func (s *Server) divide() (map[*entry][]procStat, error) {
	below, err := s.descendants()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	active := make([]*entry, 0, len(s.entries))
	mains := make(map[procID]*entry, len(s.entries))
	leads := make(map[int]*entry, len(s.entries))
	inCgroup := make(map[int]*entry)
	for _, e := range s.entries {
		if e.state != StateRunning {
			continue
		}
		active = append(active, e)
		mains[procID{e.proc.PID, e.proc.StartTicks}] = e
		leads[e.proc.PID] = e
	}
	known := maps.Clone(s.owned)
	s.mu.Unlock()
	if s.cgroup != nil {
		for _, e := range active {
			for _, pid := range s.cgroup.of(e.key).pids() {
				inCgroup[pid] = e
			}
		}
	}

	groups := make(map[*entry][]procStat)
	owner := make(map[int]*entry, len(below))
	owned := make(map[procID]*entry, len(below))
	for _, p := range below {
		e := owner[p.ppid]
		for _, guess := range []func() *entry{
			func() *entry { return mains[p.procID] },
			func() *entry { return known[p.procID] },
			func() *entry { return leads[p.pgrp] },
			func() *entry { return inCgroup[p.pid] },
			func() *entry { return byEnviron(p.pid, active) },
		} {
			if e != nil {
				break
			}
			e = guess()
		}
		groups[e] = append(groups[e], p)
		if e != nil {
			owner[p.pid], owned[p.procID] = e, e
		}
	}
	s.mu.Lock()
	for id, e := range owned {
		if e.state == StateRunning {
			s.owned[id] = e
		}
	}
	s.mu.Unlock()
	return groups, nil
}

func byEnviron(pid int, active []*entry) *entry {
	id, err := identityOf(readEnviron(pid))
	if err != nil {
		return nil
	}
	for _, e := range active {
		if e.id == id {
			return e
		}
	}
	return nil
}

// sweep does every few seconds what no event asks for: it remembers which processes belong to
// which key while their descent can still be seen, ends those that belong to none when there is no
// key they could belong to, writes exits that the disk had refused, and bounds the log.
func (s *Server) sweep(stop <-chan struct{}) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		s.sweepProcesses()
		s.saveExits()
		s.boundOwnLog()
	}
}

func (s *Server) sweepProcesses() {
	if s.quiet() {
		return
	}
	groups, err := s.divide()
	if err != nil {
		s.log.Warn("cannot look for processes", "err", err)
		return
	}
	alive := make(map[procID]bool)
	for _, procs := range groups {
		for _, p := range procs {
			alive[p.procID] = true
		}
	}
	s.mu.Lock()
	for id := range s.owned {
		if !alive[id] {
			delete(s.owned, id)
		}
	}
	active := 0
	for _, e := range s.entries {
		if e.state != StateExited {
			active++
		}
	}
	s.mu.Unlock()
	if active > 0 {
		return
	}
	for _, p := range groups[nil] {
		s.log.Warn("killing a process that belongs to no key", "pid", p.pid)
		_ = signalProc(p.procID, unix.SIGKILL) // gone, or tried again in the next round
	}
}

// quiet reports whether there is no process below the keeper.
func (s *Server) quiet() bool {
	if !s.childLists {
		return false
	}
	s.mu.Lock()
	known := len(s.owned) > 0 || len(s.byPID) > 0
	s.mu.Unlock()
	if known {
		return false
	}
	stray, err := s.strays.get()
	return err == nil && !stray
}

func (s *Server) saveExits() {
	s.mu.Lock()
	var unsaved []*entry
	for _, e := range s.entries {
		if e.unsaved {
			unsaved = append(unsaved, e)
		}
	}
	s.mu.Unlock()
	for _, e := range unsaved {
		s.mu.Lock()
		view := e.view()
		s.mu.Unlock()
		if s.exits.save(view) != nil {
			return // the first failure has been logged
		}
		s.mu.Lock()
		e.unsaved = false
		forgotten := s.entries[e.key] != e
		s.mu.Unlock()
		if forgotten {
			_ = s.exits.forget(e.key) // at worst it is reported once more
		}
	}
}
