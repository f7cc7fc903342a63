package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is one daemon of the cluster, started by this process.
type node struct {
	name string // "master-1", also of its directory and log
	args []string
	sec  *security

	dataDir string
	logPath string
	id      procID
	where   Endpoints
	exited  chan struct{} // closed when the process has ended and was reaped
	killed  bool          // by us, on purpose
}

// start runs the daemon in a session of its own: a terminal's signals do not
// reach it.
func (c Config) start(name string, args []string, sec *security) (*node, error) {
	n := &node{
		name: name, args: args, sec: sec, dataDir: c.nodeDir(name), logPath: c.nodeDir(name + ".log"),
		exited: make(chan struct{}),
	}
	if err := os.MkdirAll(n.dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	log, err := os.OpenFile(n.logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	// It outlives any context: cluster.stop ends it.
	args = slices.Concat(args, sec.args(name), []string{"--data-dir", n.dataDir})
	cmd := exec.Command(c.Exe, args...) //nolint:gosec,noctx // the own binary
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = c.childEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// A child that is not reaped keeps its number, so this is its start time.
	n.id, _ = identify(cmd.Process.Pid)
	n.id.PID = cmd.Process.Pid
	go func() {
		defer close(n.exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return n, nil
}

// childEnv is the caller's environment without settings of Hearth, which would
// change the cluster behind our back, and with the mark.
func (c Config) childEnv() []string {
	var env []string
	for _, kv := range c.Env {
		if !strings.HasPrefix(kv, "HEARTH_") && !strings.HasPrefix(kv, markVariable+"=") {
			env = append(env, kv)
		}
	}
	return append(env, c.mark())
}

func (c Config) mark() string { return markVariable + "=" + c.Dir }

// await reads the addresses from the file name as soon as the process has
// written it.
func (n *node) await(ctx context.Context, name string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		where, err := ReadEndpoints(n.dataDir, name, n.id.PID)
		if err == nil {
			n.where = where
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		select {
		case <-tick.C:
		case <-n.exited:
			return fmt.Errorf("%s ended before it was ready; the end of %s:\n%s", n.name, n.logPath, tail(n.logPath))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (no %s): %w; the end of %s:\n%s", n.name, name, context.Cause(ctx), n.logPath, tail(n.logPath))
		}
	}
}

func (n *node) running() bool {
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// kill is kill -9. It returns when the process is gone.
func (n *node) kill() error {
	n.killed = true
	if err := n.id.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-n.exited
	return nil
}

// tail returns the last lines of a log.
func tail(path string) string {
	const most = 2 << 10
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // only read
	if st, err := f.Stat(); err == nil && st.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // else from the start
	}
	text, _ := io.ReadAll(io.LimitReader(f, most)) // what could be read is shown
	return strings.TrimRight(string(text), "\n")
}
