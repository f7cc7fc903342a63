package client

import (
	"context"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Times of asking the others while a leader is silent.
const (
	recheckAfter   = 250 * time.Millisecond
	recheckTimeout = 500 * time.Millisecond
)

// watchAttempt watches a leader's call in progress at addr. When it takes
// longer than recheckAfter, addr is asked for a sign of life; if it gives none
// and another master names another leader, the attempt is given up and f
// follows that hint. A leader that is cut off or frozen would hold the caller
// until the attempt's time-out otherwise; one that is only slow, or a standby
// that forwards, is waited for. stop ends the watch and joins it; attempts that
// are answered sooner cost one timer.
func (c *Client) watchAttempt(ctx context.Context, f *LeaderFinder, addr string, giveUp context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(recheckAfter, func() {
		defer close(done)
		for ctx.Err() == nil {
			if next := c.askOthers(ctx, f, addr); next != "" && !c.alive(ctx, addr) && ctx.Err() == nil {
				f.Failed(addr, rpc.NotLeader(next))
				giveUp()
				return
			}
			pause(ctx, recheckAfter)
		}
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// askOthers returns the leader that a master other than addr names, "" if none
// names another one.
func (c *Client) askOthers(ctx context.Context, f *LeaderFinder, addr string) string {
	for _, other := range f.Seeds() {
		if other == addr || ctx.Err() != nil {
			continue
		}
		if st, err := c.askState(ctx, other); err == nil && st.LeaderAddr != "" && st.LeaderAddr != addr {
			return st.LeaderAddr
		}
	}
	return ""
}

// alive reports whether the master at addr answers a simple question.
func (c *Client) alive(ctx context.Context, addr string) bool {
	_, err := c.askState(ctx, addr)
	return err == nil
}

func (c *Client) askState(ctx context.Context, addr string) (model.Staleness, error) {
	conn, err := c.conn(addr)
	if err != nil {
		return model.Staleness{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	return rpc.ClusterClient(conn).Staleness(ctx)
}

// pause waits or returns early with ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
