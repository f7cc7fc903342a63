package fsm

import (
	"bytes"
	"slices"

	"github.com/hearthd/hearth/model"
)

// checkDrivers checks the drivers, their attempts and what is derived of them.
func (c *checker) checkDrivers() {
	var ended, waiting, reqs, running int
	c.s.drivers.walk(nil, func(d *model.Driver) bool {
		e, present := c.s.executors.get(attemptKey(d.Number, model.ExecutorID(d.Attempt)))
		c.checkDriver(d, e, present)
		if d.RequestID != "" {
			reqs++
			if n, ok := c.s.driverReq.tree.get([]byte(d.RequestID)); !ok || n != d.Number {
				c.bad("driver %s: is not found by its request", d.ID)
			}
		}
		if present {
			running++
		}
		switch {
		case d.State.Queued():
			waiting++
			if _, ok := c.s.waiting.tree.get(numKey(d.Number)); !ok {
				c.bad("driver %s: is missing from the queue", d.ID)
			}
		case d.State.Terminal():
			ended++
			if _, ok := c.s.endedDrivers.tree.get(endedDriverKey(d)); !ok {
				c.bad("driver %s: is missing from the ended ones", d.ID)
			}
		}
		return true
	})
	got := [3]int{c.s.endedDrivers.n, c.s.waiting.n, c.s.driverReq.n}
	if want := [3]int{ended, waiting, reqs}; got != want {
		c.bad("indexes of drivers have %v entries, the records make %v (ended, waiting, by request)", got, want)
	}
	if ended > model.MaxEndedDrivers {
		c.bad("%d ended drivers, the limit is %d", ended, model.MaxEndedDrivers)
	}
	if running != c.s.placedDrivers() {
		c.bad("%d drivers have a process, %d have a worker", running, c.s.placedDrivers())
	}
	c.checkDriverApps()
}

func (c *checker) checkDriver(d *model.Driver, e *model.Executor, present bool) {
	if n, err := d.ID.Number(); err != nil || n != d.Number || d.Number == 0 || d.Number > c.s.meta.lastDriver {
		c.bad("driver %q has number %d; the last is %d", d.ID, d.Number, c.s.meta.lastDriver)
	}
	if !slices.Contains(model.DriverStates(), d.State) {
		c.bad("driver %s: state %q", d.ID, d.State)
	}
	if holds := d.State == model.DriverRunning || d.State == model.DriverKilling; holds != present {
		c.bad("driver %s: is %s, and that attempt %d has a process is %t", d.ID, d.State, d.Attempt, present)
	}
	if d.State == model.DriverSubmitted != (d.Attempt == 0 && !d.State.Terminal()) || d.Attempt < 0 {
		c.bad("driver %s: is %s after %d attempts", d.ID, d.State, d.Attempt)
	}
	if present && (e.Worker != d.Worker || d.State == model.DriverKilling && e.State.Live()) {
		c.bad("driver %s: is %s on worker %s, its attempt is %s on %s", d.ID, d.State, d.Worker, e.State, e.Worker)
	}
	if len(d.Failures) > model.DriverFailuresLimit || len(d.Finished) > model.MaxDriverAttempts || d.EndedTick < 0 {
		c.bad("driver %s: %d failures, keeps %d attempts, ended at %d", d.ID, len(d.Failures), len(d.Finished), d.EndedTick)
	}
	last := model.ExecutorID(0)
	for _, old := range d.Finished {
		if old.App != d.ID.Owner() || old.ID <= last || int(old.ID) > d.Attempt || !old.State.Terminal() || present && old.ID == e.ID {
			c.bad("driver %s: ended attempt %s in state %s is out of place", d.ID, old.Ref(), old.State)
		}
		last = old.ID
	}
	held := 0
	c.s.executors.walk(attemptsPrefix(d.Number), func(*model.Executor) bool { held++; return true })
	if held > 1 || held == 1 && !present {
		c.bad("driver %s: %d processes, attempt %d being the last", d.ID, held, d.Attempt)
	}
}

// checkAttempt checks the process of a driver among the executors.
func (c *checker) checkAttempt(k []byte, e *model.Executor) {
	d, ok := c.s.driver(model.DriverID(e.App))
	switch {
	case !ok:
		c.bad("attempt %s: its driver does not exist", e.Ref())
		return
	case !bytes.Equal(k, attemptKey(d.Number, e.ID)) || int(e.ID) != d.Attempt:
		c.bad("attempt %s: is out of place; the last one is %d", e.Ref(), d.Attempt)
	case !slices.Contains(model.ExecutorStates(), e.State) || e.State.Terminal():
		c.bad("attempt %s: state %q among the unfinished", e.Ref(), e.State)
	}
	if e.Cores < 1 || e.MemoryMiB < 1 {
		c.bad("attempt %s: holds %d cores and %d MiB", e.Ref(), e.Cores, e.MemoryMiB)
	}
	if w, found := c.s.worker(e.Worker); found && e.Incarnation > w.Incarnation {
		c.bad("attempt %s: of incarnation %d of a worker in %d", e.Ref(), e.Incarnation, w.Incarnation)
	}
	if _, found := c.s.byWorker.tree.get(byWorkerKey(e.Worker, k)); !found {
		c.bad("attempt %s: is missing from the index of worker %s", e.Ref(), e.Worker)
	}
}

// checkDriverApps checks which applications belong to drivers.
func (c *checker) checkDriverApps() {
	linked := 0
	c.s.apps.walk(nil, func(a *model.App) bool {
		n, err := a.Spec.Driver.Number()
		if err != nil || a.State.Terminal() {
			return true
		}
		linked++
		if _, ok := c.s.byDriver.tree.get(byDriverKey(n, a.Number)); !ok {
			c.bad("application %s: is missing from those of driver %s", a.ID, a.Spec.Driver)
		}
		if d, ok := c.s.driver(a.Spec.Driver); !ok || d.State.Terminal() || a.Spec.Attempt != d.Attempt {
			c.bad("application %s: is %s although attempt %d of driver %s is over", a.ID, a.State, a.Spec.Attempt, a.Spec.Driver)
		}
		return true
	})
	if linked != c.s.byDriver.n {
		c.bad("%d applications of drivers, %d in their index", linked, c.s.byDriver.n)
	}
}
