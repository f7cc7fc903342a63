package driver

import (
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
)

// inbox takes what the leader says to the loop without blocking the session.
// Only the last word on each executor is kept, which bounds it. Safe for
// concurrent use; it is the client.DriverHandler of the session.
type inbox struct {
	mu     sync.Mutex
	latest map[model.ExecutorID]model.DriverExecutor
	order  []model.ExecutorID // of first news
	ended  *model.DriverEnded
	linked time.Time // since when there is a session; zero = there is none
	wake   chan struct{}
}

func newInbox() *inbox {
	return &inbox{latest: make(map[model.ExecutorID]model.DriverExecutor), wake: make(chan struct{}, 1)}
}

// ExecutorChanged notes the present state of an executor.
func (b *inbox) ExecutorChanged(e model.DriverExecutor) {
	b.mu.Lock()
	if _, ok := b.latest[e.ID]; !ok {
		b.order = append(b.order, e.ID)
	}
	b.latest[e.ID] = e
	b.mu.Unlock()
	b.ring()
}

// Ended notes that the application is over.
func (b *inbox) Ended(e model.DriverEnded) {
	b.mu.Lock()
	b.ended = &e
	b.mu.Unlock()
	b.ring()
}

// Linked notes that there is a session with the leader, or none any more.
func (b *inbox) Linked(up bool) {
	b.mu.Lock()
	b.linked = time.Time{}
	if up {
		b.linked = time.Now()
	}
	b.mu.Unlock()
	b.ring()
}

// linkedSince is when the present session was established, zero without one.
func (b *inbox) linkedSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.linked
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) drain() ([]model.DriverExecutor, *model.DriverEnded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]model.DriverExecutor, 0, len(b.order))
	for _, id := range b.order {
		out = append(out, b.latest[id])
	}
	b.order = nil
	clear(b.latest)
	return out, b.ended
}
