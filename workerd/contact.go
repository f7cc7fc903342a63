//go:build linux

package workerd

import (
	"context"
	"sync"
	"time"

	"github.com/hearthd/hearth/workerd/keeper"
)

// Shares of worker_timeout for executors of which there may be only one (design 7). The leader
// replaces them when it has heard nothing for all of it, counted from something later: it cannot
// have heard a message before it was sent. What is left in between is for clocks that run
// differently and for processes that take their time to die.
const (
	singletonTermTenths = 5 // SIGTERM
	singletonKillTenths = 7 // SIGKILL
	patienceTenths      = 3 // before: a silent leader is left
)

// contact knows when this worker last sent something that a leader has answered, and turns that into
// the lease under which executors of the disconnect policy "singleton" run. The session feeds it,
// the keeper is told of it. Safe for concurrent use.
type contact struct {
	// now reads CLOCK_BOOTTIME.
	now func() time.Duration
	// news has capacity 1: the lease has changed.
	news chan struct{}

	mu     sync.Mutex
	sent   time.Duration // of the newest message that was answered
	waits  time.Duration // by whoever answered it, before it gives this worker up
	lease  keeper.Lease  // zero before the first answer
	handed bool          // a planned restart: the lease is the last one of this process

	telling sync.Mutex // one renewal at a time, so that a keeper gets them in order
}

func newContact(now func() time.Duration) *contact {
	if now == nil {
		now = keeper.SinceBoot
	}
	return &contact{now: now, news: make(chan struct{}, 1)}
}

// leaseFrom is the lease that a message sent at a time earns if the other side waits for timeout.
func leaseFrom(sent, timeout time.Duration) keeper.Lease {
	return keeper.Lease{
		TermAt: sent + timeout*singletonTermTenths/10,
		KillAt: sent + timeout*singletonKillTenths/10,
	}
}

// answered says that a leader, which waits for timeout before it gives this worker up, has answered
// a message that was sent at that time.
func (c *contact) answered(sent, timeout time.Duration) {
	c.mu.Lock()
	if c.handed || sent <= c.sent {
		c.mu.Unlock()
		return
	}
	c.sent, c.waits, c.lease = sent, timeout, leaseFrom(sent, timeout)
	c.mu.Unlock()
	c.poke()
}

// handOver says that a leader has agreed, in answer to what was sent at that time, to wait for
// window. Nothing renews the lease after that.
func (c *contact) handOver(sent, window time.Duration) {
	c.mu.Lock()
	c.handed, c.lease = true, leaseFrom(sent, window)
	c.mu.Unlock()
}

// resume takes handOver back. The lease is that of the last answer again: the leader may wait
// longer, but what it agreed to is over as soon as it hears of this worker.
func (c *contact) resume() {
	c.mu.Lock()
	if c.handed {
		c.handed, c.lease = false, leaseFrom(c.sent, c.waits)
	}
	c.mu.Unlock()
	c.poke()
}

func (c *contact) poke() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// renew tells k the present lease, if there is one.
func (c *contact) renew(ctx context.Context, k Runner) error {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	lease := c.lease
	c.mu.Unlock()
	if lease == (keeper.Lease{}) {
		return nil
	}
	return k.Lease(ctx, lease)
}

// beats remembers when the beats of one session were sent. It is used by one goroutine.
type beats struct {
	number uint64
	sentAt map[uint64]time.Duration
}

// next counts a beat that is sent now.
func (b *beats) next(now time.Duration) uint64 {
	if b.sentAt == nil {
		b.sentAt = make(map[uint64]time.Duration)
	}
	b.number++
	b.sentAt[b.number] = now
	// A leader that answers nothing is left long before; this is for one that answers wrongly.
	delete(b.sentAt, b.number-maxUnansweredBeats)
	return b.number
}

// answered returns when a beat was sent; ok is false for one that was not, or was answered before.
func (b *beats) answered(number uint64) (sent time.Duration, ok bool) {
	sent, ok = b.sentAt[number]
	if ok {
		for n := range b.sentAt {
			if n <= number {
				delete(b.sentAt, n)
			}
		}
	}
	return sent, ok
}

// renewLeases tells the keeper of each change until ctx ends. One that cannot be told ends leased
// processes in time, which is right.
func (a *agent) renewLeases(ctx context.Context) {
	for {
		select {
		case <-a.contact.news:
		case <-ctx.Done():
			return
		}
		if k := a.keepers.get(); k != nil {
			call, cancel := context.WithTimeout(ctx, keeperCallTimeout)
			if err := a.contact.renew(call, k); err != nil && ctx.Err() == nil {
				a.log.Debug("lease not renewed", "err", err)
			}
			cancel()
		}
	}
}
