package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hearthd/hearth/model"
)

// checker collects what is wrong with a state, up to a limit that keeps the
// message readable.
type checker struct {
	s    *state
	errs []error
	more int
}

const maxComplaints = 20

func (c *checker) bad(format string, args ...any) {
	if len(c.errs) == maxComplaints {
		c.more++
		return
	}
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// checkInvariants recomputes everything that is derived and compares.
func (s *state) checkInvariants() error {
	c := &checker{s: s}
	if err := s.meta.settings.Validate(); err != nil || s.meta.nextApp == 0 {
		c.bad("settings or counters: next application %d: %v", s.meta.nextApp, err)
	}
	c.checkWorkers()
	c.checkHeld()
	c.checkBooks()
	c.checkApps()
	c.checkExecutors()
	c.checkDrivers()
	c.checkRequests()
	c.checkAccess()
	c.checkIndexes()
	if got := s.recomputeHash(); got != s.hash {
		c.bad("state hash is %s, recomputed %s", s.hash, got)
	}
	if len(c.errs) == 0 {
		return nil
	}
	if c.more > 0 {
		c.errs = append(c.errs, fmt.Errorf("and %d more", c.more))
	}
	return fmt.Errorf("%w at index %d: %w", ErrBroken, s.index, errors.Join(c.errs...))
}

func (c *checker) checkWorkers() {
	books := map[model.WorkerID]*model.Usage{}
	c.s.executors.walk(nil, func(e *model.Executor) bool {
		if books[e.Worker] == nil {
			books[e.Worker] = &model.Usage{}
		}
		charge(books[e.Worker], e)
		return true
	})
	c.s.usage.tree.walk(func(k string, u *model.Usage) bool {
		if books[model.WorkerID(k)] == nil {
			c.bad("worker %s: a book for nothing: %+v", k, *u)
		}
		return true
	})
	for _, id := range slices.Sorted(maps.Keys(books)) {
		if _, ok := c.s.worker(id); !ok {
			c.bad("worker %s: holds executors and does not exist", id)
		}
	}
	gone := 0
	c.s.workers.walk(nil, func(w *model.Worker) bool {
		want := model.Usage{}
		if b := books[w.ID]; b != nil {
			want = *b
		}
		c.checkWorker(w, want)
		if w.State.Gone() {
			gone++
		}
		return true
	})
	if gone > model.MaxGoneWorkers {
		c.bad("%d gone workers, the limit is %d", gone, model.MaxGoneWorkers)
	}
}

func (c *checker) checkWorker(w *model.Worker, want model.Usage) {
	if got := c.s.used(w.ID); !sameUsage(got, want) {
		c.bad("worker %s: its book says %+v, its executors hold %+v", w.ID, got, want)
	}
	if fits := holds(w.Offer, want); fits == w.Overcommitted {
		c.bad("worker %s: uses %+v of %d cores and %d MiB with overcommitted=%t", w.ID, want, w.Offer.Cores, w.Offer.MemoryMiB, w.Overcommitted)
	}
	if w.State.Gone() && want.Executors > 0 {
		c.bad("worker %s: is %s and holds %d executors", w.ID, w.State, want.Executors)
	}
	if !slices.Contains(model.WorkerStates(), w.State) || w.State.Up() && w.State != w.UpState(want.Holds()) {
		c.bad("worker %s: state %q, holding %d executors, under drain %+v", w.ID, w.State, want.Executors, w.Drain)
	}
	if restarting := w.State == model.WorkerRestarting; restarting != (w.RestartUntil > 0) || w.RestartUntil > w.StateTick+model.MaxRestartMilli || w.HeardTick < 0 {
		c.bad("worker %s: is %s since %d and may restart until %d, heard at %d", w.ID, w.State, w.StateTick, w.RestartUntil, w.HeardTick)
	}
	if validID("worker", string(w.ID)) != nil || w.Offer.Validate() != nil || w.Incarnation == 0 || w.StateTick < 0 {
		c.bad("worker %q: id, offer, incarnation or tick is not valid", w.ID)
	}
	for name, addrs := range want.Resources {
		if len(slices.Compact(slices.Sorted(slices.Values(addrs)))) != len(addrs) {
			c.bad("worker %s: an address of %s is held twice: %v", w.ID, name, addrs)
		}
	}
}

func sameUsage(a, b model.Usage) bool {
	if a.Cores != b.Cores || a.MemoryMiB != b.MemoryMiB || a.Executors != b.Executors || len(a.Resources) != len(b.Resources) {
		return false
	}
	for name, addrs := range a.Resources {
		if !slices.Equal(slices.Sorted(slices.Values(addrs)), slices.Sorted(slices.Values(b.Resources[name]))) {
			return false
		}
	}
	return true
}

func (c *checker) checkApps() {
	c.s.apps.walk(nil, func(a *model.App) bool {
		c.checkApp(a)
		return true
	})
}

func (c *checker) checkApp(a *model.App) {
	if n, err := a.ID.Number(); err != nil || model.IsDriver(a.ID) || n != a.Number || a.Number >= c.s.meta.nextApp || a.Number == 0 {
		c.bad("application %q has number %d; the next is %d", a.ID, a.Number, c.s.meta.nextApp)
	}
	if !slices.Contains(model.AppStates(), a.State) {
		c.bad("application %s: state %q", a.ID, a.State)
	}
	live, cores, leaving := map[int]int{}, 0, 0
	c.s.executors.walk(numKey(a.Number), func(e *model.Executor) bool {
		cores += e.Cores
		if e.Leaving {
			leaving += e.Cores
		}
		if e.State.Live() {
			live[e.Profile]++
		}
		return true
	})
	if !maps.Equal(live, a.Live) || cores != a.CoresGranted || leaving != a.CoresLeaving {
		c.bad("application %s: counts live %v and %d cores, %d of them leaving, its executors make %v, %d and %d", a.ID, a.Live, a.CoresGranted, a.CoresLeaving, live, cores, leaving)
	}
	if a.State.Terminal() && len(live) > 0 {
		c.bad("application %s: is %s with live executors %v", a.ID, a.State, live)
	}
	if a.State == model.AppWaiting && a.NextExecutor > 0 {
		c.bad("application %s: is %s after %d executors", a.ID, a.State, a.NextExecutor)
	}
	if a.EndedTick < 0 || len(a.Failures) > model.MaxFailuresKept || len(a.Profiles) > maxProfiles {
		c.bad("application %s: %d failures, %d profiles, ended at tick %d", a.ID, len(a.Failures), len(a.Profiles), a.EndedTick)
	}
	c.checkFinished(a)
}

func (c *checker) checkFinished(a *model.App) {
	limit := model.MaxFinishedExecutors
	if a.State.Terminal() {
		limit = model.MaxFinishedExecutorsEnded
	}
	if len(a.Finished) > limit {
		c.bad("application %s: keeps %d ended executors, the limit is %d", a.ID, len(a.Finished), limit)
	}
	seen := make(map[model.ExecutorID]bool, len(a.Finished))
	for _, e := range a.Finished {
		_, alive := c.s.executors.get(executorKey(a.Number, e.ID))
		if alive || seen[e.ID] || e.App != a.ID || e.ID < 0 || e.ID >= a.NextExecutor || !e.State.Terminal() {
			c.bad("application %s: ended executor %s in state %s is out of place", a.ID, e.Ref(), e.State)
		}
		seen[e.ID] = true
	}
}

func (c *checker) checkExecutors() {
	c.s.executors.tree.walk(func(key string, en *entry[model.Executor]) bool {
		k, e := []byte(key), en.rec
		if model.IsDriver(e.App) {
			c.checkAttempt(k, e)
			return true
		}
		a, ok := c.s.app(e.App)
		switch {
		case !ok:
			c.bad("executor %s: its application does not exist", e.Ref())
			return true
		case !bytes.Equal(k, executorKey(a.Number, e.ID)) || e.ID < 0 || e.ID >= a.NextExecutor:
			c.bad("executor %s: is out of place; the next id is %d", e.Ref(), a.NextExecutor)
		case !slices.Contains(model.ExecutorStates(), e.State) || e.State.Terminal():
			c.bad("executor %s: state %q among the unfinished", e.Ref(), e.State)
		}
		if _, known := a.Profiles[e.Profile]; !known {
			c.bad("executor %s: profile %d does not exist", e.Ref(), e.Profile)
		}
		if e.Leaving && e.State.Live() || e.State == model.ExecutorDecommissioning && !e.Leaving {
			c.bad("executor %s: is %s with leaving=%t", e.Ref(), e.State, e.Leaving)
		}
		if e.Cores < 1 || e.MemoryMiB < 0 {
			c.bad("executor %s: holds %d cores and %d MiB", e.Ref(), e.Cores, e.MemoryMiB)
		}
		if w, found := c.s.worker(e.Worker); found && e.Incarnation > w.Incarnation {
			c.bad("executor %s: of incarnation %d of a worker in %d", e.Ref(), e.Incarnation, w.Incarnation)
		}
		if _, found := c.s.byWorker.tree.get(byWorkerKey(e.Worker, k)); !found {
			c.bad("executor %s: is missing from the index of worker %s", e.Ref(), e.Worker)
		}
		return true
	})
	if c.s.byWorker.n != c.s.executors.n {
		c.bad("%d executors, %d in the index by worker", c.s.executors.n, c.s.byWorker.n)
	}
}

func (c *checker) checkRequests() {
	if c.s.requests.n > model.MaxRemembered || c.s.reqOrder.n != c.s.requests.n {
		c.bad("%d requests remembered, %d in order, the limit is %d", c.s.requests.n, c.s.reqOrder.n, model.MaxRemembered)
	}
	var last uint64
	c.s.reqOrder.tree.walk(func(_, id string) bool {
		r, ok := c.s.requests.get([]byte(id))
		if !ok {
			c.bad("request %s: in order but not remembered", id)
			return true
		}
		if r.index < last || r.index > c.s.index || len(r.result) > model.MaxRememberedBytes {
			c.bad("request %s: applied at index %d after %d, with a result of %d bytes", id, r.index, last, len(r.result))
		}
		last = r.index
		return true
	})
}

func (c *checker) checkIndexes() {
	var ended, idle, reqs, gone int
	c.s.apps.walk(nil, func(a *model.App) bool {
		if a.RequestID != "" {
			reqs++
			if n, ok := c.s.byReq.tree.get([]byte(a.RequestID)); !ok || n != a.Number {
				c.bad("application %s: is not found by its request", a.ID)
			}
		}
		if !a.State.Terminal() {
			return true
		}
		ended++
		if _, ok := c.s.ended.tree.get(endedKey(a)); !ok {
			c.bad("application %s: is missing from the ended ones", a.ID)
		}
		if a.CoresGranted == 0 {
			idle++
			if _, ok := c.s.idle.tree.get(endedKey(a)); !ok {
				c.bad("application %s: is missing from the ended ones without executors", a.ID)
			}
		}
		return true
	})
	c.s.workers.walk(nil, func(w *model.Worker) bool {
		if w.State.Gone() {
			gone++
			if _, ok := c.s.gone.tree.get(goneKey(w)); !ok {
				c.bad("worker %s: is missing from the gone ones", w.ID)
			}
		}
		return true
	})
	got := [4]int{c.s.ended.n, c.s.idle.n, c.s.byReq.n, c.s.gone.n}
	if want := [4]int{ended, idle, reqs, gone}; got != want {
		c.bad("indexes have %v entries, the records make %v (ended, without executors, by request, gone)", got, want)
	}
	if idle > model.MaxEndedApps {
		c.bad("%d ended applications without executors, the limit is %d", idle, model.MaxEndedApps)
	}
}

// recomputeHash makes the state hash from the records alone.
func (s *state) recomputeHash() Hash {
	var hr hasher
	h := hr.meta(&s.meta)
	s.masters.walk(nil, func(m *model.Master) bool { h.add(hr.master(m)); return true })
	s.workers.walk(nil, func(w *model.Worker) bool {
		h.add(hr.worker(w))
		h.add(hr.offer(w))
		return true
	})
	s.apps.walk(nil, func(a *model.App) bool {
		h.add(hr.app(a))
		h.add(hr.spec(a))
		for _, e := range a.Finished {
			h.add(hr.finished(e))
		}
		return true
	})
	s.executors.walk(nil, func(e *model.Executor) bool { h.add(hr.executor(e)); return true })
	s.requests.walk(nil, func(r *remembered) bool { h.add(hr.request(r)); return true })
	s.audit.walk(nil, func(l *model.AuditLine) bool { h.add(hr.auditLine(l)); return true })
	s.tokens.walk(nil, func(t *model.Token) bool { h.add(hr.token(t)); return true })
	s.drivers.walk(nil, func(d *model.Driver) bool { h.add(hr.driver(d)); return true })
	return h
}
