package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is what daemons get to end gracefully, each kind in turn.
	stopTimeout = 30 * time.Second
	// goneTimeout is how long anything else may outlive them.
	goneTimeout = 10 * time.Second
)

// stateFile, in the demonstration's directory, lets another process end it.
const stateFile = "demo.json"

// savedState is the content of stateFile.
type savedState struct {
	Version int         `json:"version"`
	Nodes   []savedNode `json:"nodes"`
}

type savedNode struct {
	procID
	Name string `json:"name"`
	ID   string `json:"id"` // "" until it was ready
}

func (c *cluster) save() error {
	s := savedState{Version: 1}
	for _, n := range slices.Concat(c.masters, c.workers) {
		s.Nodes = append(s.Nodes, savedNode{procID: n.id, Name: n.name, ID: n.where.ID})
	}
	return writeJSON(filepath.Join(c.cfg.Dir, stateFile), s)
}

// Stop ends the demonstration that was left running in dir, gracefully, and
// returns when nothing of it is left. Data and logs stay. The error is
// ErrUsage if there never was one.
func Stop(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return usagef("--dir: %w", err)
	}
	s, err := loadState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("no demonstration was started in %s", dir)
	}
	if err != nil {
		return err
	}
	return s.stop(ctx, dir)
}

func loadState(dir string) (savedState, error) {
	var s savedState
	err := readJSON(filepath.Join(dir, stateFile), &s)
	return s, err
}

// running reports whether any daemon is.
func (s savedState) running() bool {
	return slices.ContainsFunc(s.Nodes, func(n savedNode) bool { return n.alive() })
}

// stop ends workers, then masters, by SIGTERM and if need be SIGKILL, and waits
// until nothing that they started is left.
func (s savedState) stop(ctx context.Context, dir string) error {
	var errs []error
	m := marks{Config{Dir: dir}.mark()}
	for _, kind := range []string{"worker-", "master-"} {
		var procs []procID
		for _, n := range s.Nodes {
			if strings.HasPrefix(n.Name, kind) {
				procs = append(procs, n.procID)
			}
			if kind == "worker-" && strings.HasPrefix(n.Name, kind) && n.ID != "" {
				m = append(m, "HEARTH_WORKER_ID="+n.ID)
			}
		}
		errs = append(errs, terminate(ctx, procs))
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return errors.Join(append(errs, m.gone(ctx))...)
}

// terminate sends SIGTERM to all, and SIGKILL to those that are there at the
// end of ctx or of stopTimeout, which is an error.
func terminate(ctx context.Context, procs []procID) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.signal(syscall.SIGTERM))
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		left := slices.DeleteFunc(slices.Clone(procs), func(p procID) bool { return !p.alive() })
		if len(left) == 0 {
			return errors.Join(errs...)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, p := range left {
				errs = append(errs, fmt.Errorf("process %d did not end on SIGTERM", p.PID), p.signal(syscall.SIGKILL))
			}
			return errors.Join(errs...)
		}
	}
}

// stop ends the whole cluster. It is what happens when the context of
// everything else ends, so ctx must be another one.
func (c *cluster) stop(ctx context.Context) error {
	var s savedState
	for _, n := range slices.Concat(c.masters, c.workers) {
		s.Nodes = append(s.Nodes, savedNode{procID: n.id, Name: n.name, ID: n.where.ID})
	}
	err := s.stop(ctx, c.cfg.Dir)
	for _, n := range slices.Concat(c.masters, c.workers) {
		<-n.exited
	}
	return err
}
