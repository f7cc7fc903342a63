package masterd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// heard is what a worker was told, and when.
type heard struct {
	mu   sync.Mutex
	down []model.WorkerDown
	at   []time.Time
}

func (h *heard) take(d model.WorkerDown) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.at = append(h.down, d), append(h.at, time.Now())
}

// when lists the moments at which something of a kind was said.
func (h *heard) when(is func(model.WorkerDown) bool) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []time.Time
	for i, d := range h.down {
		if is(d) {
			out = append(out, h.at[i])
		}
	}
	return out
}

// A session rests while nothing on its worker changes. What it has to do then by
// itself must not wait for the end of the rest.
func TestSimASessionAtRestRepeatsOrdersAndTellsEndsInTime(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(20 * time.Second)
		full, empty := newSimWorker(c, "w1"), newSimWorker(c, "w2")
		var onFull, onEmpty heard
		full.got = onFull.take
		full.connect()
		time.Sleep(5 * time.Second) // everything rests
		submitted := time.Now()
		app, _ := c.submit("lost", 5*time.Second, c.ms...)
		launch := func(d model.WorkerDown) bool { return d.Launch != nil && d.Launch.Ref.App == app }
		c.until("three orders to launch", 4*orderResend, func() error {
			if n := len(onFull.when(launch)); n < 3 {
				return fmt.Errorf("there were %d", n)
			}
			return nil
		})
		last := submitted.Add(-orderResend)
		for n, at := range onFull.when(launch) {
			if late := at.Sub(last) - orderResend; late > loopTick+100*time.Millisecond {
				t.Errorf("order %d came %s late", n, late)
			}
			last = at
		}

		empty.apps, empty.got = []model.AppID{app}, onEmpty.take
		empty.connect()
		time.Sleep(5 * time.Second)
		cl := c.client(c.ms...)
		killed := time.Now()
		if err := cl.KillApp(context.Background(), app, "the test ends it"); err != nil {
			t.Fatal(err)
		}
		over := func(d model.WorkerDown) bool { return d.AppEnded != nil && d.AppEnded.App == app }
		c.until("the worker without executors knows the end", 10*time.Second, func() error {
			if len(onEmpty.when(over)) == 0 {
				return fmt.Errorf("it was told %d other things", len(onEmpty.when(func(model.WorkerDown) bool { return true })))
			}
			return nil
		})
		if took := onEmpty.when(over)[0].Sub(killed); took > loopTick+500*time.Millisecond {
			t.Errorf("it was told after %s", took)
		}
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
		full.stop()
		empty.stop()
		c.agree()
	})
}

// The scheduler rests while nothing changes. A worker that is left alone for a
// time comes into question again without that anything changes.
func TestSimASchedulerAtRestPlacesOnAWorkerWhenItIsShunnedNoMore(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		for n := range c.dirs {
			c.start(n)
		}
		leader, _ := c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		time.Sleep(5 * time.Second)
		leader.leading.Load().shun(w.id)
		shunned := time.Now()
		app, _ := c.submit("waits", 5*time.Second, c.ms...)
		if c.placed(app) == nil {
			t.Error("it was placed on the worker that is shunned: this test shows nothing")
		}
		c.until("an executor", time.Minute, func() error { return c.placed(app) })
		if took := time.Since(shunned); took > shunAfterLoss+loopTick+500*time.Millisecond {
			t.Errorf("it was placed %s after the worker was shunned", took)
		}
		w.stop()
		c.agree()
	})
}
