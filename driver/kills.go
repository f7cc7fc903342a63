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

// killList tells the leader of executors that the driver has given up, or needs
// no more on a drained worker: they hold cores that others could use. An executor stays on the list until
// the leader has taken the kill or says by itself that it has ended, however
// long nobody leads; so the list is bounded by the executors that there were.
// Safe for concurrent use.
type killList struct {
	timeout, retry time.Duration // of one call; between two

	mu   sync.Mutex
	ids  []model.ExecutorID
	why  map[model.ExecutorID]string
	wake chan struct{}
}

// silentTooLong is the reason by which an executor ends that the driver has lost.
const silentTooLong = "lost to its driver: silent for longer than its time-out"

func newKillList() *killList {
	return &killList{timeout: killTimeout, retry: killRetry, why: make(map[model.ExecutorID]string), wake: make(chan struct{}, 1)}
}

func (k *killList) add(id model.ExecutorID, reason string) {
	k.mu.Lock()
	k.ids = append(k.ids, id)
	k.why[id] = reason
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
	for _, id := range ids {
		delete(k.why, id)
	}
}

// pending lists the executors that are to end for the reason of the first.
func (k *killList) pending() (ids []model.ExecutorID, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.ids) == 0 {
		return nil, ""
	}
	reason = k.why[k.ids[0]]
	for _, id := range k.ids {
		if k.why[id] == reason {
			ids = append(ids, id)
		}
	}
	return ids, reason
}

// run sends what is on the list until ctx ends.
func (k *killList) run(ctx context.Context, c *client.Client, app model.AppID, log hclog.Logger) {
	told := false // that the leader cannot be told
	for {
		ids, reason := k.pending()
		if len(ids) == 0 {
			told = false
			select {
			case <-ctx.Done():
				return
			case <-k.wake:
			}
			continue
		}
		err := k.send(ctx, c, app, ids, reason)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.drop(ids...)
		case finalAnswer(err):
			log.Warn("the leader refuses to end executors", "executors", ids, "err", err)
			k.drop(ids...)
		default:
			if !told {
				log.Warn("no leader can be told which executors are to end yet, trying on", "executors", ids, "err", err)
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

func (k *killList) send(ctx context.Context, c *client.Client, app model.AppID, ids []model.ExecutorID, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	return c.KillExecutors(ctx, rpc.KillExecutorsRequest{
		App: app, Executors: ids, Reason: reason,
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
