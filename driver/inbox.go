package driver

import (
	"sync"

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
