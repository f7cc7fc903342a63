//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hearthd/hearth/internal/unixsocket"
)

// LaunchConfig says how an agent starts its keeper.
type LaunchConfig struct {
	// StateDir and WorkerID are those the arguments of the process name too.
	StateDir string
	WorkerID string
	// Env is the keeper's environment, nil means the agent's own. HEARTH_WORKER_ID is taken out of
	// it: the keeper is no process of the worker's.
	Env []string
}

// Launch starts exe with args as the keeper, in a session of its own so that a Ctrl-C at the agent's
// terminal does not reach it, and attaches to it. Try Attach first: a keeper that kept children for
// this agent must be adopted, and makes Launch fail. A keeper that is about to end is waited for.
//
// The process is a child of the agent; it is waited for in the background until it ends, which it
// does soon after the connection unless told to keep.
func Launch(ctx context.Context, exe string, args []string, cfg LaunchConfig) (*Client, error) {
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("launch keeper: %w", err)
	}
	cmd, log, err := keeperCommand(exe, args, cfg)
	if err != nil {
		return nil, fmt.Errorf("launch keeper: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	c, err := awaitKeeper(ctx, cmd.Process.Pid, exited, cfg)
	if err != nil {
		// Not its own process group is killed but it alone: it has no children before an agent asks.
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("launch keeper, see %s: %w", log, err)
	}
	return c, nil
}

// logPath is the file that receives what a keeper prints; it is bounded.
func logPath(stateDir string) string { return filepath.Join(stateDir, "keeper.log") }

func keeperCommand(exe string, args []string, cfg LaunchConfig) (*exec.Cmd, string, error) {
	path := logPath(cfg.StateDir)
	if err := boundLog(path, DefaultLogBytes); err != nil {
		return nil, path, err
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, path, err
	}
	defer func() { _ = log.Close() }()
	env := cfg.Env
	if env == nil {
		env = os.Environ()
	}
	// Not CommandContext: the keeper outlives ctx, which bounds only the launch.
	cmd := exec.Command(exe, args...) //nolint:gosec,noctx // the agent's own binary
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = []string{}
	for _, kv := range env {
		if !strings.HasPrefix(kv, EnvWorkerID+"=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return cmd, path, cmd.Start()
}

// awaitKeeper attaches to the keeper with that process id as soon as it listens.
func awaitKeeper(ctx context.Context, pid int, exited <-chan error, cfg LaunchConfig) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	var last error
	for {
		conn, err := unixsocket.Dial(ctx, SocketPath(cfg.StateDir))
		if err == nil {
			// Whoever listens there may be a predecessor on its way out, which must not take us
			// for its own agent come back.
			if err = checkListener(conn, pid); err == nil {
				return attachConn(ctx, conn, cfg.WorkerID)
			}
			_ = conn.Close()
		}
		last = err
		select {
		case <-tick.C:
		case err := <-exited:
			if err == nil {
				err = errors.New("it ended without an error")
			}
			return nil, fmt.Errorf("keeper did not stay: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("keeper does not answer: %w (%w)", ctx.Err(), last)
		}
	}
}

func checkListener(conn *net.UnixConn, pid int) error {
	cred, err := unixsocket.Peer(conn)
	if err != nil {
		return err
	}
	if int(cred.Pid) != pid {
		return fmt.Errorf("process %d listens there, not %d", cred.Pid, pid)
	}
	return nil
}
