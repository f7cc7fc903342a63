package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// killList tells the leader of executors that the driver has given up: they
// hold cores that a replacement could use. An executor stays on the list until
// the leader has taken the kill or says by itself that it has ended, however
// long nobody leads; so the list is bounded by the executors that there were.
// Safe for concurrent use.
type killList struct {
	timeout, retry time.Duration // of one call; between two

	mu   sync.Mutex
	ids  []model.ExecutorID
	wake chan struct{}
}

func newKillList() *killList {
	return &killList{timeout: killTimeout, retry: killRetry, wake: make(chan struct{}, 1)}
}

func (k *killList) add(id model.ExecutorID) {
	k.mu.Lock()
	k.ids = append(k.ids, id)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// drop forgets executors that need no kill any more.
func (k *killList) drop(ids ...model.ExecutorID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = slices.DeleteFunc(k.ids, func(id model.ExecutorID) bool { return slices.Contains(ids, id) })
}

func (k *killList) pending() []model.ExecutorID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ids)
}

// run sends what is on the list until ctx ends.
func (k *killList) run(ctx context.Context, c *client.Client, app model.AppID, log hclog.Logger) {
	told := false // that the leader cannot be told
	for {
		ids := k.pending()
		if len(ids) == 0 {
			told = false
			select {
			case <-ctx.Done():
				return
			case <-k.wake:
			}
			continue
		}
		err := k.send(ctx, c, app, ids)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.drop(ids...)
		case finalAnswer(err):
			log.Warn("the leader refuses to end lost executors", "executors", ids, "err", err)
			k.drop(ids...)
		default:
			if !told {
				log.Warn("no leader can be told of lost executors yet, trying on", "executors", ids, "err", err)
				told = true
			}
			t := time.NewTimer(k.retry)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
		}
	}
}

func (k *killList) send(ctx context.Context, c *client.Client, app model.AppID, ids []model.ExecutorID) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	return c.KillExecutors(ctx, rpc.KillExecutorsRequest{
		App: app, Executors: ids, Reason: "lost to its driver: silent for longer than its time-out",
	})
}

// finalAnswer reports whether a leader would give the same answer again.
func finalAnswer(err error) bool {
	for _, target := range []error{
		model.ErrNotFound, model.ErrEnded, model.ErrInvalid, model.ErrRefused, model.ErrUnauthenticated,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
