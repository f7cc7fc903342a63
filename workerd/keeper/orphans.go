//go:build linux

package keeper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Orphans lists the processes on this machine whose environment says that they belong to the
// worker (HEARTH_WORKER_ID): what a keeper that was killed could not take along. The caller itself
// and its ancestors are not among them. It is meaningful only while no keeper of the worker runs.
//
// Only environments this user may read are seen; a process that overwrote its own is not found.
func Orphans(workerID string) ([]Proc, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	procs, err := scanProcs()
	if err != nil {
		return nil, err
	}
	var found []Proc
	for _, p := range orphansAmong(procs, workerID) {
		found = append(found, Proc{PID: p.pid, StartTicks: p.start, BootID: boot})
	}
	return found, nil
}

func orphansAmong(procs []procStat, workerID string) []procStat {
	own := make(map[int]bool)
	parents := make(map[int]int, len(procs))
	for _, p := range procs {
		parents[p.pid] = p.ppid
	}
	for pid := os.Getpid(); pid > 0 && !own[pid]; pid = parents[pid] {
		own[pid] = true
	}
	var found []procStat
	marker := EnvWorkerID + "=" + workerID
	for _, p := range procs {
		if !p.dead() && !own[p.pid] && slices.Contains(readEnviron(p.pid), marker) {
			found = append(found, p)
		}
	}
	return found
}

// KillOrphans ends with SIGKILL every orphan of the worker and every process in known (from the
// journal of an earlier agent) that still is the process known: same id, start time and boot. It
// returns those it has signalled once all of them are gone, or an error when ctx ends before.
// Signals go to single processes, never to a group, whose number may have a new owner.
func KillOrphans(ctx context.Context, workerID string, known []Proc) ([]Proc, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	var (
		killed []Proc
		seen   = make(map[procID]bool)
	)
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for {
		procs, err := scanProcs()
		if err != nil {
			return killed, err
		}
		targets := orphansAmong(procs, workerID)
		for _, p := range procs {
			is := Proc{PID: p.pid, StartTicks: p.start, BootID: boot}
			if !p.dead() && slices.Contains(known, is) && !slices.Contains(targets, p) {
				targets = append(targets, p)
			}
		}
		if len(targets) == 0 {
			return killed, nil
		}
		for _, p := range targets {
			if signalProc(p.procID, unix.SIGKILL) == nil && !seen[p.procID] {
				seen[p.procID] = true
				killed = append(killed, Proc{PID: p.pid, StartTicks: p.start, BootID: boot})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return killed, fmt.Errorf("kill orphans of %s: %d are still there, one is %d: %w",
				workerID, len(targets), targets[0].pid, ctx.Err())
		}
	}
}

// ProcOf returns the full name of the process that has this id now.
func ProcOf(pid int) (Proc, error) {
	boot, err := BootID()
	if err != nil {
		return Proc{}, err
	}
	stat, err := readStat(pid)
	if err != nil {
		return Proc{}, err
	}
	return Proc{PID: pid, StartTicks: stat.start, BootID: boot}, nil
}

// IsRunning reports whether p is a living process of this boot.
func IsRunning(p Proc) (bool, error) {
	boot, err := BootID()
	if err != nil {
		return false, err
	}
	if p.BootID != boot {
		return false, nil
	}
	now, err := readStat(p.PID)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return now.start == p.StartTicks && !now.dead(), nil
}
