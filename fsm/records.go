package fsm

import (
	"maps"
	"slices"

	"github.com/hearthd/hearth/model"
)

// This file is the only one that changes records: each function keeps the
// derived books, the indexes and the list of changes in step.

func (t *tx) changed(c Change) {
	c.Index = t.index
	t.changes = append(t.changes, c)
}

// changedOnce is changed for tables of a single record.
func (t *tx) changedOnce(kind ChangeKind) {
	if !slices.ContainsFunc(t.changes, func(c Change) bool { return c.Kind == kind }) {
		t.changed(Change{Kind: kind})
	}
}

func (t *tx) findApp(id model.AppID) (*model.App, bool) {
	n, err := id.Number()
	if err != nil {
		return nil, false
	}
	a, ok := t.apps.get(numKey(n))
	if !ok || a.ID != id {
		return nil, false
	}
	return a, true
}

// editApp returns the application for changing; it must exist.
func (t *tx) editApp(number uint64) *model.App {
	a, first := t.apps.edit(numKey(number))
	if first {
		t.changed(Change{Kind: ChangeApp, App: a.ID})
	}
	a.ChangeIndex = t.index
	return a
}

func (t *tx) findWorker(id model.WorkerID) (*model.Worker, bool) { return t.workers.get([]byte(id)) }

// addWorker inserts a new worker.
func (t *tx) addWorker(w *model.Worker) {
	t.workers.insert([]byte(w.ID), w)
	t.hash.add(t.hasher.offer(w))
	t.changed(Change{Kind: ChangeWorker, Worker: w.ID})
}

// setOffer replaces a worker's offer.
func (t *tx) setOffer(w *model.Worker, offer model.Offer) {
	t.hash.sub(t.hasher.offer(w))
	w.Offer = offer
	t.hash.add(t.hasher.offer(w))
}

// editWorker returns the worker for changing; it must exist.
func (t *tx) editWorker(id model.WorkerID) *model.Worker {
	w, first := t.workers.edit([]byte(id))
	if first {
		t.changed(Change{Kind: ChangeWorker, Worker: id})
	}
	w.ChangeIndex = t.index
	return w
}

// setWorkerState moves a worker to another state and keeps the list of gone
// workers, which it bounds.
func (t *tx) setWorkerState(w *model.Worker, state model.WorkerState, reason string) {
	if w.State.Gone() {
		t.gone.remove(goneKey(w))
	}
	w.State, w.StateReason = state, model.TrimReason(reason)
	w.StateWall, w.StateTick, w.RestartUntil = t.wall, t.tick, 0
	if !state.Gone() {
		return
	}
	t.gone.put(goneKey(w), string(w.ID))
	for t.gone.n > model.MaxGoneWorkers {
		key, id, ok := t.gone.first()
		if !ok {
			return
		}
		t.gone.remove(key)
		if old, found := t.findWorker(model.WorkerID(id)); found {
			t.hash.sub(t.hasher.offer(old))
			t.workers.remove([]byte(id))
		}
		t.changed(Change{Kind: ChangeWorker, Worker: model.WorkerID(id)})
	}
}

func (t *tx) usedOn(id model.WorkerID) model.Usage {
	if u, ok := t.usage.get([]byte(id)); ok {
		return *u
	}
	return model.Usage{}
}

// editUsage returns the worker's book for changing.
func (t *tx) editUsage(id model.WorkerID) *model.Usage {
	if u, ok := t.ownUsage[id]; ok {
		return u
	}
	own := t.usedOn(id).Clone()
	if t.ownUsage == nil {
		t.ownUsage = make(map[model.WorkerID]*model.Usage)
	}
	t.ownUsage[id] = &own
	t.usage.put([]byte(id), &own)
	return &own
}

// charge adds what an executor holds to a book.
func charge(u *model.Usage, e *model.Executor) {
	u.Executors++
	u.Cores += e.Cores
	u.MemoryMiB += e.MemoryMiB
	for name, addrs := range e.Resources {
		if u.Resources == nil {
			u.Resources = model.Resources{}
		}
		u.Resources[name] = append(u.Resources[name], addrs...)
	}
}

// release takes what an executor holds out of the worker's book, and clears
// the worker's Overcommitted flag once the rest fits its offer.
func (t *tx) release(e *model.Executor) {
	u := t.editUsage(e.Worker)
	u.Executors--
	u.Cores -= e.Cores
	u.MemoryMiB -= e.MemoryMiB
	for name, addrs := range e.Resources {
		left := slices.DeleteFunc(u.Resources[name], func(a string) bool { return slices.Contains(addrs, a) })
		if len(left) == 0 {
			delete(u.Resources, name)
		} else {
			u.Resources[name] = left
		}
	}
	if w, ok := t.findWorker(e.Worker); ok && w.Overcommitted && holds(w.Offer, *u) {
		t.editWorker(e.Worker).Overcommitted = false
	}
	if u.Executors == 0 {
		delete(t.ownUsage, e.Worker)
		t.usage.remove([]byte(e.Worker))
		t.settleDrain(e.Worker)
	}
}

// holds reports whether an offer covers a usage.
func holds(o model.Offer, u model.Usage) bool {
	if u.Cores > o.Cores || u.MemoryMiB > o.MemoryMiB {
		return false
	}
	for name, addrs := range u.Resources {
		offered := make(map[string]bool, len(o.Resources[name]))
		for _, a := range o.Resources[name] {
			offered[a] = true
		}
		for _, a := range addrs {
			if !offered[a] {
				return false
			}
		}
	}
	return true
}

// findExecutor finds an unfinished executor.
func (t *tx) findExecutor(ref model.ExecutorRef) (*model.Executor, *model.App, bool) {
	a, ok := t.findApp(ref.App)
	if !ok || ref.Executor < 0 || ref.Executor >= a.NextExecutor {
		return nil, a, false
	}
	e, ok := t.executors.get(executorKey(a.Number, ref.Executor))
	return e, a, ok
}

// editExecutor returns an unfinished executor for changing; it must exist.
func (t *tx) editExecutor(a *model.App, id model.ExecutorID) *model.Executor {
	e, first := t.executors.edit(executorKey(a.Number, id))
	if first {
		t.changed(Change{Kind: ChangeExecutor, App: a.ID, Executor: id, Worker: e.Worker})
	}
	e.ChangeIndex = t.index
	return e
}

// addExecutor inserts a placed executor; a must be editable.
func (t *tx) addExecutor(a *model.App, e *model.Executor) {
	key := executorKey(a.Number, e.ID)
	t.executors.insert(key, e)
	t.byWorker.put(byWorkerKey(e.Worker, key), struct{}{})
	charge(t.editUsage(e.Worker), e)
	a.Live[e.Profile]++
	a.CoresGranted += e.Cores
	t.hold(a, e.Cores)
	t.changed(Change{Kind: ChangeExecutor, App: a.ID, Executor: e.ID, Worker: e.Worker})
}

// moveExecutor changes the state of an unfinished executor to another
// unfinished one.
func (t *tx) moveExecutor(a *model.App, id model.ExecutorID, state model.ExecutorState, reason string) *model.Executor {
	e := t.editExecutor(a, id)
	wasLive := e.State.Live()
	t.enter(e, state, reason)
	switch {
	case wasLive && !state.Live():
		t.countLive(t.editApp(a.Number), e.Profile, -1)
	case !wasLive && state.Live():
		t.countLive(t.editApp(a.Number), e.Profile, 1)
	}
	switch state { //nolint:exhaustive // the others leave it as it is
	case model.ExecutorDecommissioning:
		t.leave(e)
	case model.ExecutorRunning:
		t.stay(e)
	}
	return e
}

// enter writes down that an unfinished process is in another unfinished state.
func (t *tx) enter(e *model.Executor, state model.ExecutorState, reason string) {
	e.State, e.StateTick = state, t.tick
	if reason != "" {
		e.Reason = model.TrimReason(reason)
	}
	if (state == model.ExecutorLaunching || state == model.ExecutorRunning) && e.LaunchTick == 0 {
		e.LaunchTick = t.tick
	}
	if state == model.ExecutorRunning && e.RunningTick == 0 {
		e.RunningTick = t.tick
	}
}

// finish writes down how a process ended.
func (t *tx) finish(e *model.Executor, how ending) {
	e.State, e.Cause, e.ExitCode, e.Signal = how.state, how.cause, how.exitCode, how.signal
	if how.reason != "" {
		e.Reason = model.TrimReason(how.reason)
	}
	e.Secret = "" // it opens nothing any more
	e.StateTick, e.EndedWall = t.tick, t.wall
}

func (t *tx) countLive(a *model.App, profile, by int) {
	a.Live[profile] += by
	if a.Live[profile] == 0 {
		delete(a.Live, profile)
	}
}

// ending says how an executor ended.
type ending struct {
	state    model.ExecutorState
	cause    model.Cause
	exitCode int
	signal   int
	reason   string
}

// endExecutor moves an unfinished executor to its final state: what it held is
// free, the application keeps the record, and the failure policy judges it.
func (t *tx) endExecutor(a *model.App, id model.ExecutorID, how ending) {
	e := t.editExecutor(a, id)
	app := t.editApp(a.Number)
	before := e.State
	if before.Live() {
		t.countLive(app, e.Profile, -1)
	}
	app.CoresGranted -= e.Cores
	if e.Leaving {
		app.CoresLeaving -= e.Cores
	} else {
		t.hold(app, -e.Cores)
	}
	t.release(e)
	key := executorKey(app.Number, id)
	t.executors.remove(key)
	t.byWorker.remove(byWorkerKey(e.Worker, key))

	t.finish(e, how)
	app.Finished = append(app.Finished, e)
	t.hash.add(t.hasher.finished(e))
	if app.State.Terminal() {
		t.trimFinished(app, model.MaxFinishedExecutorsEnded)
		t.idleEnded(app)
		return
	}
	t.trimFinished(app, model.MaxFinishedExecutors)
	t.judge(app, e, before)
}

// trimFinished counts the oldest ended executors beyond a limit instead of
// keeping them.
func (t *tx) trimFinished(a *model.App, limit int) {
	drop := len(a.Finished) - limit
	if drop <= 0 {
		return
	}
	a.FinishedCount = maps.Clone(a.FinishedCount)
	for _, e := range a.Finished[:drop] {
		t.hash.sub(t.hasher.finished(e))
		a.FinishedCount[e.Cause]++
	}
	a.Finished = slices.Clone(a.Finished[drop:])
}

// addApp inserts a new application.
func (t *tx) addApp(a *model.App) {
	t.apps.insert(numKey(a.Number), a)
	t.apps.fix(numKey(a.Number), t.hasher.spec(a))
	if a.RequestID != "" {
		t.byReq.put([]byte(a.RequestID), a.Number)
	}
	t.linkApp(a)
	t.changed(Change{Kind: ChangeApp, App: a.ID})
}

// endApp ends an active application; its live executors are to be killed.
func (t *tx) endApp(a *model.App, state model.AppState, exitCode int, reason string) {
	app := t.editApp(a.Number)
	app.State, app.ExitCode, app.Reason = state, exitCode, model.TrimReason(reason)
	app.EndedWall, app.EndedTick = t.wall, t.tick
	app.Excluded, app.BackoffUntil, app.Backoff = nil, 0, 0
	t.ended.put(endedKey(app), app.Number)
	t.unlinkApp(app)
	for _, e := range t.executors.collect(numKey(app.Number)) {
		if e.State.CanBecome(model.ExecutorKilling) {
			t.moveExecutor(app, e.ID, model.ExecutorKilling, "its application has ended")
		}
	}
	t.trimFinished(app, model.MaxFinishedExecutorsEnded)
	t.idleEnded(app)
}

// idleEnded notes that an ended application has no unfinished executors, and
// forgets the oldest such application beyond the limit. One whose processes
// may still run is kept beside them until they are known to be gone.
func (t *tx) idleEnded(a *model.App) {
	if a.CoresGranted > 0 {
		return
	}
	t.idle.put(endedKey(a), a.Number)
	for t.idle.n > model.MaxEndedApps {
		key, n, ok := t.idle.first()
		if !ok {
			return
		}
		t.idle.remove(key)
		t.ended.remove(key)
		if old, found := t.apps.get(numKey(n)); found {
			t.forgetApp(old)
		}
	}
}

func (t *tx) forgetApp(a *model.App) {
	if a.RequestID != "" {
		t.byReq.remove([]byte(a.RequestID))
	}
	for _, e := range a.Finished {
		t.hash.sub(t.hasher.finished(e))
	}
	t.apps.remove(numKey(a.Number))
	t.changed(Change{Kind: ChangeApp, App: a.ID})
}
