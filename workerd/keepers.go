//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/workerd/keeper"
)

// keeperDir is the keeper's state directory below the data directory.
const keeperDir = "keeper"

// ErrKeeperLost is in the error of Run when the keeper died again and again.
var ErrKeeperLost = errors.New("the keeper of this worker's processes died too often")

// keepers holds the connection to the worker's keeper and replaces a keeper that died. get may be
// called concurrently; the rest belongs to the agent's goroutine and the jobs it starts.
type keepers struct {
	log      hclog.Logger
	argv     []string // starts a keeper; the state directory and the worker's id are added
	stateDir string
	workerID string
	ctx      context.Context //nolint:containedctx // of jobs, which outlive whoever asks for them; set by agent.run

	mu     sync.Mutex
	client *keeper.Client // nil while there is none

	deaths []time.Time // in the window
}

func newKeepers(log hclog.Logger, argv []string, dataDir, workerID string) (*keepers, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command that starts the keeper")
	}
	dir, err := filepath.Abs(filepath.Join(dataDir, keeperDir))
	if err != nil {
		return nil, fmt.Errorf("keeper directory: %w", err)
	}
	return &keepers{log: log, argv: argv, stateDir: dir, workerID: workerID}, nil
}

// connect attaches to a keeper that an earlier agent left on purpose, or ends what an earlier one
// has left behind and starts a keeper. It returns what the keeper knows.
func (k *keepers) connect(ctx context.Context, known []keeper.Proc) ([]keeper.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout+keeperCallTimeout)
	defer cancel()
	c, err := keeper.Attach(ctx, keeper.SocketPath(k.stateDir), k.workerID)
	if err != nil {
		if c, err = k.launch(ctx, known); err != nil {
			return nil, err
		}
	}
	entries, err := c.List(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("list processes: %w", err), c.Close())
	}
	k.mu.Lock()
	k.client = c
	k.mu.Unlock()
	info := c.Info()
	k.log.Info("keeper attached", "pid", info.Proc.PID, "processes", len(entries),
		"memory_limits", info.MemoryLimits, "why", info.MemoryLimitsWhy)
	return entries, nil
}

func (k *keepers) launch(ctx context.Context, known []keeper.Proc) (*keeper.Client, error) {
	orphans, err := keeper.KillOrphans(ctx, k.workerID, known)
	if err != nil {
		return nil, fmt.Errorf("end processes of an earlier run: %w", err)
	}
	if len(orphans) > 0 {
		k.log.Warn("ended processes that an earlier run had left behind", "count", len(orphans), "first_pid", orphans[0].PID)
	}
	args := append(slices.Clone(k.argv[1:]), "--state-dir", k.stateDir, "--worker-id", k.workerID)
	return keeper.Launch(ctx, k.argv[0], args, keeper.LaunchConfig{StateDir: k.stateDir, WorkerID: k.workerID})
}

// get returns the connection, nil while there is none.
func (k *keepers) get() *keeper.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.client
}

func (k *keepers) take() *keeper.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.client
	k.client = nil
	return c
}

// listen passes the keeper's events to the agent until its connection ends, and then replaces the
// keeper.
//

func (k *keepers) listen(a *agent) {
	c := k.get()
	a.jobs.Go(func() {
		for {
			select {
			case ev, ok := <-c.Events():
				if !ok {
					_ = a.do(k.ctx, func() { k.died(a, c) })
					return
				}
				_ = a.do(context.WithoutCancel(k.ctx), func() { a.event(ev) })
			case <-k.ctx.Done():
				return
			}
		}
	})
}

// died replaces a keeper whose connection has ended, unless that happens too often. What it ran is
// dead or about to be; what it had noted of their ends is on disk.
func (k *keepers) died(a *agent, c *keeper.Client) {
	err := c.Err()
	_ = k.take()
	now := time.Now()
	k.deaths = append(slices.DeleteFunc(k.deaths, func(t time.Time) bool { return now.Sub(t) > KeeperRestartWindow }), now)
	if len(k.deaths) > MaxKeeperRestarts {
		a.fail = fmt.Errorf("%w (%d times within %s, see %s): %w", ErrKeeperLost, len(k.deaths), KeeperRestartWindow,
			filepath.Join(k.stateDir, "keeper.log"), errors.Join(err, c.Close()))
		return
	}
	k.log.Error("the keeper died, starting another", "err", err)
	known := a.table.processes()
	a.jobs.Go(func() {
		_ = c.Close()
		entries, err := k.connect(k.ctx, known)
		_ = a.do(context.WithoutCancel(k.ctx), func() {
			if err != nil {
				a.fail = fmt.Errorf("replace the keeper: %w", err)
				return
			}
			a.perform(a.table.attach(entries, time.Now()))
			k.listen(a)
		})
	})
}

// close ends the keeper and whatever it still runs, and waits for its process to be gone.
func (k *keepers) close() error {
	c := k.take()
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperCallTimeout)
	defer cancel()
	err := errors.Join(c.Shutdown(ctx, 0), c.Close())
	tick := time.NewTicker(keeperPoll)
	defer tick.Stop()
	for {
		running, runErr := keeper.IsRunning(c.Info().Proc)
		if runErr != nil || !running {
			return errors.Join(err, runErr)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("end keeper %d: %w", c.Info().Proc.PID, ctx.Err()))
		}
	}
}
