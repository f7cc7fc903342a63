package client

import (
	"context"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Times of asking the others while a leader is silent.
const (
	recheckAfter   = 200 * time.Millisecond
	recheckTimeout = 500 * time.Millisecond
	// recheckEvery is how often the others are asked at first, quickRechecks
	// times: an election ends at any moment. Then it is every recheckAfter.
	recheckEvery  = 20 * time.Millisecond
	quickRechecks = 50
	// silentAfter is how long a question for a sign of life is open before a
	// master counts as silent, once others name another leader. It has been
	// asked before they do, so that a frozen leader costs no more than its
	// replacement.
	silentAfter = 100 * time.Millisecond
	// maxLeaderLag is how long the master that names a leader may not have
	// heard it: what it names after that may be what the call waits for the
	// end of.
	maxLeaderLag = 500 * time.Millisecond
)

// watchAttempt watches a leader's call in progress at addr. When it takes
// longer than recheckAfter, addr is asked for a sign of life; if it gives none,
// or knows no leader, and another master names another leader, the attempt is
// given up and f follows that hint. A leader that is cut off or frozen, and a
// standby that is cut off and holds the call, would keep the caller until the
// attempt's time-out otherwise; a leader that is only slow, and a standby that
// forwards or waits for an election like all the others, is waited for. stop
// ends the watch and joins it; attempts that are answered sooner cost one timer.
func (c *Client) watchAttempt(ctx context.Context, f *LeaderFinder, addr string, giveUp context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(recheckAfter, func() {
		defer close(done)
		w := c.joinWatch(ctx, f, addr)
		defer c.leaveWatch(w)
		select {
		case <-ctx.Done():
		case <-w.done:
			if w.next != "" {
				f.Failed(addr, rpc.NotLeader(w.next))
				giveUp()
			}
		}
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// stuckWatch is one awaitStuck that all slow attempts at one master share: a
// thousand calls that wait for a master that is out of breath must not ask
// everybody a thousand times.
type stuckWatch struct {
	addr    string
	members int // guarded by Client.mu
	cancel  context.CancelFunc
	done    chan struct{}
	next    string // read after done
}

// joinWatch adds an attempt to the watch of addr, which lives until its last
// attempt leaves or it knows another leader.
func (c *Client) joinWatch(ctx context.Context, f *LeaderFinder, addr string) *stuckWatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[addr]
	if w == nil {
		wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w = &stuckWatch{addr: addr, cancel: cancel, done: make(chan struct{})}
		c.watches[addr] = w
		go func() {
			defer close(w.done)
			w.next = c.awaitStuck(wctx, f, addr)
			c.endWatch(w)
		}()
	}
	w.members++
	return w
}

// endWatch lets attempts from now on begin another watch.
func (c *Client) endWatch(w *stuckWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[w.addr] == w {
		delete(c.watches, w.addr)
	}
}

// leaveWatch takes an attempt out. The last one ends the watch and waits for
// it.
func (c *Client) leaveWatch(w *stuckWatch) {
	c.mu.Lock()
	w.members--
	last := w.members == 0
	if last && c.watches[w.addr] == w {
		delete(c.watches, w.addr)
	}
	c.mu.Unlock()
	if last {
		w.cancel()
		<-w.done
	}
}

// askOthers returns the leader that a master other than addr names, "" if none
// names another one.
func (c *Client) askOthers(ctx context.Context, f *LeaderFinder, addr string) string {
	for _, other := range f.Seeds() {
		if other == addr || ctx.Err() != nil {
			continue
		}
		if st, err := c.askState(ctx, other); err == nil && st.LeaderAddr != "" && st.LeaderAddr != addr &&
			st.LagMilli <= maxLeaderLag.Milliseconds() {
			return st.LeaderAddr
		}
	}
	return ""
}

// awaitStuck returns the leader that others name once the master at addr gives
// no sign of life, or knows no leader; "" when ctx ends first.
func (c *Client) awaitStuck(ctx context.Context, f *LeaderFinder, addr string) string {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	var asked time.Time
	var well chan bool // answers the question that is open; nil = none is
	for n := 0; ctx.Err() == nil; n++ {
		if well == nil {
			answer := make(chan bool, 1)
			asked, well = time.Now(), answer
			asking.Go(func() {
				st, err := c.askState(ctx, addr)
				answer <- err == nil && st.LeaderAddr != ""
			})
		}
		next := c.askOthers(ctx, f, addr)
		stuck := time.Since(asked) >= silentAfter
		select {
		case ok := <-well:
			stuck, well = !ok, nil
		default:
		}
		if next != "" && stuck && ctx.Err() == nil {
			return next
		}
		if n < quickRechecks {
			pause(ctx, recheckEvery)
		} else {
			pause(ctx, recheckAfter)
		}
	}
	return ""
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
