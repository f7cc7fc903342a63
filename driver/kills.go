package driver

import (
	"context"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// killList tells the leader of executors that the driver has given up: they
// hold cores that a replacement could use. Safe for concurrent use.
type killList struct {
	mu   sync.Mutex
	ids  []model.ExecutorID
	wake chan struct{}
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

func (k *killList) run(ctx context.Context, c *client.Client, app model.AppID, log hclog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		k.mu.Lock()
		ids := k.ids
		k.ids = nil
		k.mu.Unlock()
		if len(ids) == 0 {
			continue
		}
		tctx, cancel := context.WithTimeout(ctx, killTimeout)
		err := c.KillExecutors(tctx, rpc.KillExecutorsRequest{
			App: app, Executors: ids, Reason: "lost to its driver: silent for longer than its time-out",
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			log.Warn("the leader was not told of lost executors", "executors", ids, "err", err)
		}
	}
}
