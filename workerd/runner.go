//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/workerd/keeper"
)

// Runner starts and watches the processes of a worker. *keeper.Client describes each method; calls
// may be made concurrently. A Runner is a claim on what it has started: unless Keep was said, all of
// it ends when the Runner is closed or lost.
type Runner interface {
	Info() keeper.Info
	Events() <-chan keeper.Event
	Err() error
	Start(ctx context.Context, req keeper.StartRequest) (keeper.Started, error)
	Kill(ctx context.Context, key string, grace time.Duration) error
	List(ctx context.Context) ([]keeper.Entry, error)
	Forget(ctx context.Context, key string) error
	Keep(ctx context.Context, d time.Duration) error
	Lease(ctx context.Context, l keeper.Lease) error
	// Shutdown ends everything and the runner itself, and returns when nothing of it is left.
	Shutdown(ctx context.Context, grace time.Duration) error
	Close() error
}

// OpenRunner attaches to the runner that an earlier start of this worker left on purpose, or ends
// what an earlier one has left behind, of which known is what the journal has, and makes a runner.
type OpenRunner func(ctx context.Context, worker string, known []keeper.Proc) (Runner, error)

// keeperRunner is a keeper process.
type keeperRunner struct{ *keeper.Client }

var _ Runner = keeperRunner{}

// Shutdown waits for the keeper's process, too.
func (k keeperRunner) Shutdown(ctx context.Context, grace time.Duration) error {
	err := errors.Join(k.Client.Shutdown(ctx, grace), k.Client.Close())
	tick := time.NewTicker(keeperPoll)
	defer tick.Stop()
	for {
		running, runErr := keeper.IsRunning(k.Info().Proc)
		if runErr != nil || !running {
			return errors.Join(err, runErr)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("end keeper %d: %w", k.Info().Proc.PID, ctx.Err()))
		}
	}
}

// attach attaches to the keeper of an earlier start; nil if there is none, or it is ending. One that
// is there and does not answer yet, on a machine that is out of breath, is waited for until ctx ends:
// to take it for dead would be to end everything that it keeps.
func attach(ctx context.Context, log hclog.Logger, socket, worker string) (*keeper.Client, error) {
	for {
		c, err := keeper.Attach(ctx, socket, worker)
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, context.DeadlineExceeded):
			log.Debug("no keeper to attach to", "err", err)
			return nil, nil //nolint:nilnil // the normal case
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the keeper of the last start does not answer: %w", err)
		}
		log.Warn("the keeper of the last start does not answer yet", "err", err)
	}
}

// reap waits for a keeper which an earlier program of this process has started, so that it is no
// zombie once it has ended. If somebody else has started it, there is nothing to do.
func reap(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_, _ = p.Wait()
	}
}

// keeperOpener runs processes under a keeper, which argv starts; the state directory and the
// worker's id are added.
func keeperOpener(log hclog.Logger, argv []string, dataDir string) (OpenRunner, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command that starts the keeper")
	}
	dir, err := filepath.Abs(filepath.Join(dataDir, keeperDir))
	if err != nil {
		return nil, fmt.Errorf("keeper directory: %w", err)
	}
	return func(ctx context.Context, worker string, known []keeper.Proc) (Runner, error) {
		c, err := attach(ctx, log, keeper.SocketPath(dir), worker)
		if err != nil {
			return nil, err
		}
		if c != nil {
			go reap(c.Info().Proc.PID)
			return keeperRunner{c}, nil
		}
		orphans, err := keeper.KillOrphans(ctx, worker, known)
		if err != nil {
			return nil, fmt.Errorf("end processes of an earlier run: %w", err)
		}
		if len(orphans) > 0 {
			log.Warn("ended processes that an earlier run had left behind", "count", len(orphans), "first_pid", orphans[0].PID)
		}
		args := append(slices.Clone(argv[1:]), "--state-dir", dir, "--worker-id", worker)
		if c, err = keeper.Launch(ctx, argv[0], args, keeper.LaunchConfig{StateDir: dir, WorkerID: worker}); err != nil {
			return nil, err
		}
		return keeperRunner{c}, nil
	}, nil
}
