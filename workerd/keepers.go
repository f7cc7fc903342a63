//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
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
	open     OpenRunner
	workerID string
	ctx      context.Context //nolint:containedctx // of jobs, which outlive whoever asks for them; set by agent.run

	mu     sync.Mutex
	client Runner // nil while there is none

	deaths []time.Time // in the window
	kept   bool        // the keeper waits for the next start of this worker
}

func newKeepers(log hclog.Logger, open OpenRunner, workerID string) *keepers {
	return &keepers{log: log, open: open, workerID: workerID}
}

// connect attaches to a keeper that an earlier agent left on purpose, or ends what an earlier one
// has left behind and starts a keeper. It returns what the keeper knows.
func (k *keepers) connect(ctx context.Context, known []keeper.Proc) ([]keeper.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout+keeperCallTimeout)
	defer cancel()
	c, err := k.open(ctx, k.workerID, known)
	if err != nil {
		return nil, err
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

// get returns the connection, nil while there is none.
func (k *keepers) get() Runner {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.client
}

func (k *keepers) take() Runner {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.client
	k.client = nil
	return c
}

// listen passes the keeper's events to the agent until its connection ends, and then replaces the
// keeper.
func (k *keepers) listen(a *agent) {
	c := k.get()
	a.contact.poke() // it may be a keeper that knows no lease yet
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
func (k *keepers) died(a *agent, c Runner) {
	err := c.Err()
	_ = k.take()
	now := time.Now()
	k.deaths = append(slices.DeleteFunc(k.deaths, func(t time.Time) bool { return now.Sub(t) > KeeperRestartWindow }), now)
	if len(k.deaths) > MaxKeeperRestarts {
		a.fail = fmt.Errorf("%w (%d times within %s, see keeper/keeper.log in the data directory): %w", ErrKeeperLost, len(k.deaths),
			KeeperRestartWindow, errors.Join(err, c.Close()))
		return
	}
	a.metrics.keeperDied()
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

// close ends the keeper and whatever it still runs, unless it was told to keep that.
func (k *keepers) close() error {
	c := k.take()
	if c == nil {
		return nil
	}
	if k.kept {
		return c.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperCallTimeout)
	defer cancel()
	return errors.Join(c.Shutdown(ctx, 0), c.Close())
}
