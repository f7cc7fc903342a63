package masterd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// deadlineLate is how long after a deadline its end may be in the state: the loop
// looks once a second, and the new leader's clocks start a little after its term.
const deadlineLate = loopTick + time.Second

// handOver moves leadership, and the worker's session with it. It returns when
// the new leader was there.
func (c *simCluster) handOver(w *simWorker) time.Time {
	c.t.Helper()
	leader, err := c.leader()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := leader.transfer(context.Background(), ""); err != nil {
		c.t.Fatal(err)
	}
	c.until("another leader", 10*time.Second, func() error {
		_, err := c.leader(leader)
		return err
	})
	w.connect()
	return time.Now()
}

// executor is what the leader's state has of an executor.
func (c *simCluster) executor(ref model.ExecutorRef) (*model.Executor, error) {
	leader, err := c.leader()
	if err != nil {
		return nil, err
	}
	e, ok := leader.fsm.View().Executor(ref)
	if !ok {
		return nil, fmt.Errorf("%s is not there", ref)
	}
	return e, nil
}

// becomes waits until an executor is in a state, which must be a time after a
// moment, and little more.
func (c *simCluster) becomes(ref model.ExecutorRef, state model.ExecutorState, after time.Duration, began time.Time) *model.Executor {
	c.t.Helper()
	var last *model.Executor
	c.until(fmt.Sprintf("%s is %s", ref, state), time.Until(began)+after+deadlineLate, func() (err error) {
		if last, err = c.executor(ref); err == nil && last.State != state {
			err = fmt.Errorf("it is %s", last.State)
		}
		return err
	})
	if took := time.Since(began); took < after {
		c.t.Errorf("%s was %s after %s, want %s", ref, state, took, after)
	}
	return last
}

// SC-14: a worker whose session is healthy never says that it launches anything.
// Its placements are LOST after a time and replaced, and a new leader gives what
// it finds that time again, no less and no more.
func TestSimSC14APlacementThatNobodyAcknowledgesIsLostAndReplaced(t *testing.T) {
	const limit = model.PlacedLostMilli * time.Millisecond
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		began := time.Now()
		app, _ := c.submit("mute", 5*time.Second, c.ms...)
		for n := range 4 {
			ref := model.ExecutorRef{App: app, Executor: model.ExecutorID(n)}
			c.becomes(ref, model.ExecutorPlaced, 0, began)
			began = time.Now()
			if n%2 == 1 { // the leader's clock, not that of the state
				time.Sleep(limit * 2 / 3)
				began = c.handOver(w)
			}
			e := c.becomes(ref, model.ExecutorLost, limit-time.Second, began) // its clocks start a little before it serves
			if e.Cause != model.CauseInfra || !strings.Contains(e.Reason, "did not acknowledge the launch within 30 s") {
				t.Errorf("%s: cause %s, reason %q", ref, e.Cause, e.Reason)
			}
			began = time.Now()
		}
		w.stop()
		c.agree()
	})
}

// An executor that is being launched and does not come up is ended, under the
// next leader as under the one that has placed it.
func TestSimALaunchThatDoesNotComeUpIsEndedByTheNextLeaderToo(t *testing.T) {
	const limit = model.LaunchingMilli * time.Millisecond
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		for n, handOver := range []bool{false, true} {
			app, _ := c.submit(fmt.Sprint("slow ", n), 5*time.Second, c.ms...)
			ref := model.ExecutorRef{App: app}
			c.becomes(ref, model.ExecutorPlaced, 0, time.Now())
			w.report(model.ExecutorReport{Ref: ref, State: model.ExecutorLaunching, ExitCode: -1})
			c.becomes(ref, model.ExecutorLaunching, 0, time.Now())
			began := time.Now()
			if handOver {
				time.Sleep(limit * 2 / 3)
				w.has = []model.ExecutorReport{{Ref: ref, State: model.ExecutorLaunching, ExitCode: -1}}
				began = c.handOver(w)
			}
			e := c.becomes(ref, model.ExecutorKilling, limit-time.Second, began)
			if !strings.Contains(e.Reason, "did not come up within 60 s") {
				t.Errorf("%s: reason %q", ref, e.Reason)
			}
		}
		w.stop()
		c.agree()
	})
}
