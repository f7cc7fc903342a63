package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// successor is what takes over this process in a planned restart: whatever
// program is by then at the path by which this one was started, so that a new
// version put there, or behind a link there, is what runs next.
type successor struct{ path string }

// newSuccessor finds the program that was started as arg0.
func newSuccessor(arg0 string) (successor, error) {
	self, err := os.Executable()
	if err != nil {
		return successor{}, fmt.Errorf("find the own binary: %w", err)
	}
	path, err := exec.LookPath(arg0)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil || !sameFile(path, "/proc/self/exe") {
		return successor{self}, nil //nolint:nilerr // started by another name than its path
	}
	return successor{path}, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// check reports why the program could not take over: it does not start, or
// config, which reads the settings as it would, fails.
func (s successor) check(ctx context.Context, config func() error) error {
	out, err := exec.CommandContext(ctx, s.path, "version").CombinedOutput() //nolint:gosec // our own path
	if err != nil {
		return fmt.Errorf("run %s version: %w: %s", s.path, err, strings.TrimSpace(clipText(string(out))))
	}
	return config()
}

// takeOver replaces this process: the id stays, so nobody who watches it has to
// know. It returns only if that fails.
func (s successor) takeOver(args, env []string) error {
	if err := syscall.Exec(s.path, args, env); err != nil { //nolint:gosec // our own path and arguments
		return fmt.Errorf("start %s in place of this process: %w", s.path, err)
	}
	return nil
}

// clipText bounds what somebody else has printed.
func clipText(s string) string {
	const most = 500
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
