package simnet

import (
	"sync"
	"time"
)

// deadline is a point in time at which waiters give up; it can be moved while they wait.
type deadline struct {
	mu         sync.Mutex
	timer      *time.Timer
	generation uint64 // tells a timer that was replaced after it fired to do nothing
	expired    chan struct{}
	isExpired  bool
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set moves the deadline; the zero time means none. One in the past expires at once.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.generation++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.isExpired {
		d.expired = make(chan struct{})
		d.isExpired = false
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expireLocked()
		return
	}
	generation := d.generation
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.generation == generation {
			d.expireLocked()
		}
	})
}

func (d *deadline) expireLocked() {
	close(d.expired)
	d.isExpired = true
}

// wait returns the channel that is closed when the deadline passes. It stays the right one until the deadline has
// passed and is set anew.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// passed says whether the deadline is over.
func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.isExpired
}
