package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markVariable is in the environment of everything a demonstration starts. It
// does not begin with HEARTH_, because workers do not pass those on.
const markVariable = "DEMO_OF_HEARTH"

// pollEvery is how often files and processes are looked at while waiting.
const pollEvery = 10 * time.Millisecond

// procID tells a process from a later one with the same number.
type procID struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
}

// identify reads the start time of a process; false if it is gone or a zombie.
func identify(pid int) (procID, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procID{}, false
	}
	// The name in parentheses may hold anything; the state follows it.
	_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // proc(5) counts from 1, and the state is field 3
	if !ok || len(fields) <= startField || fields[0] == "Z" || fields[0] == "X" {
		return procID{}, false
	}
	ticks, err := strconv.ParseUint(fields[startField], 10, 64)
	return procID{PID: pid, StartTicks: ticks}, err == nil
}

func (p procID) alive() bool {
	now, ok := identify(p.PID)
	return ok && now == p
}

// signal reaches the process and nobody else: Go holds a descriptor of it, and
// its start time is checked while the descriptor is held.
func (p procID) signal(sig syscall.Signal) error {
	proc, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", p.PID, err)
	}
	defer func() { _ = proc.Release() }()
	if !p.alive() {
		return nil
	}
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// marks are strings of which each process of the demonstration carries one, as
// a whole, in its environment or arguments.
type marks []string

// processes lists what carries a mark, this process excepted.
func (m marks) processes() []procID {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []procID
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, ok := identify(pid)
		// Whoever is not readable belongs to somebody else.
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if ok && (m.in(env) || m.in(args)) {
			out = append(out, id)
		}
	}
	return out
}

func (m marks) in(list []byte) bool {
	for s := range strings.SplitSeq(string(list), "\x00") {
		if slices.Contains(m, s) {
			return true
		}
	}
	return false
}

// gone waits until nothing carries a mark; at the end of ctx it kills what is
// left and says how much that was.
func (m marks) gone(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		left := m.processes()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var errs []error
			for _, p := range left {
				errs = append(errs, p.signal(syscall.SIGKILL))
			}
			return errors.Join(fmt.Errorf("%d processes were left over and had to be killed, the first was %d", len(left), left[0].PID), errors.Join(errs...))
		}
	}
}
