package fsm

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// drainWorkers takes workers out of service, all or none (ADR 0036).
func (t *tx) drainWorkers(c *replogv1.Command, p *replogv1.DrainWorkers) Result {
	if d := p.GetDeadlineMilli(); d < 0 || d > model.MaxDrainMilli {
		return reject(model.RejectInvalid, "a deadline of %d ms: must be between 0 (none) and %d", d, int64(model.MaxDrainMilli))
	}
	ids, res := t.namedWorkers(p.GetWorkers())
	if res.Rejection != model.RejectNone {
		return res
	}
	drain := &model.Drain{
		Index: t.index, Reason: model.TrimReason(p.GetReason()), Principal: c.GetPrincipal(),
		SinceWall: t.wall, SinceTick: t.tick, IdleOnly: p.GetIdleOnly(),
	}
	if p.GetDeadlineMilli() > 0 {
		drain.DeadlineTick = t.tick + p.GetDeadlineMilli()
	}
	for _, id := range ids {
		t.editWorker(id).Drain = drain
		if !drain.IdleOnly {
			t.decommission(id, drain)
		}
		t.settleDrain(id)
		t.auditLine(c, "drain worker", string(id))
	}
	return Result{}
}

// namedWorkers checks a list of workers; they must exist, gone ones included.
func (t *tx) namedWorkers(names []string) ([]model.WorkerID, Result) {
	if len(names) == 0 || len(names) > model.MaxDrainWorkers {
		return nil, reject(model.RejectInvalid, "%d workers: must be between 1 and %d", len(names), model.MaxDrainWorkers)
	}
	ids := make([]model.WorkerID, 0, len(names))
	for _, name := range names {
		id := model.WorkerID(name)
		if _, ok := t.findWorker(id); !ok {
			return nil, reject(model.RejectUnknownWorker, "worker %q is not registered", name)
		}
		ids = append(ids, id)
	}
	return ids, Result{}
}

// decommission moves what can be moved off a worker: an executor that runs is
// replaced before it ends, one that does not run yet is ended at once. A copy
// that does a piece of work is left to its end, or to the deadline: a second one
// would do the work twice. A singleton ends before it is replaced.
func (t *tx) decommission(id model.WorkerID, d *model.Drain) {
	for _, e := range t.unfinishedOn(id) {
		if model.IsDriver(e.App) {
			t.moveDriver(e, drainReason(d))
			continue
		}
		a, ok := t.findApp(e.App)
		switch {
		case !ok || !e.State.Live():
		case e.State != model.ExecutorRunning:
			t.moveExecutor(a, e.ID, model.ExecutorKilling, drainReason(d))
		case a.Spec.Disconnect.Singleton():
			t.moveExecutor(a, e.ID, model.ExecutorKilling, drainReason(d)+"; of a singleton no two copies run at once")
		case a.Spec.CompletionsWanted() == 0:
			t.moveExecutor(a, e.ID, model.ExecutorDecommissioning, drainReason(d))
		}
	}
}

// moveDriver has the process of a supervised driver ended, which is then launched
// again, elsewhere: of a driver no two attempts run at once. One that is not
// supervised is left to its end, or to the deadline.
func (t *tx) moveDriver(e *model.Executor, reason string) {
	if d, ok := t.findDriver(model.DriverID(e.App)); ok && d.Spec.Supervise && e.State.CanBecome(model.ExecutorKilling) {
		t.moveAttempt(d, e.ID, model.ExecutorKilling, reason).Leaving = true
	}
}

func drainReason(d *model.Drain) string {
	if d.Reason == "" {
		return "its worker is drained"
	}
	return "its worker is drained: " + d.Reason
}

// settleDrain moves a worker that answers to the state that its drain, and what
// runs there, make.
func (t *tx) settleDrain(id model.WorkerID) {
	w, ok := t.findWorker(id)
	if !ok || !w.State.Up() {
		return
	}
	if state := t.upState(w); state != w.State {
		t.setWorkerState(t.editWorker(id), state, drainOf(w))
	}
}

// drainOf is why a worker is out of service, for its state.
func drainOf(w *model.Worker) string {
	if w.Drain == nil {
		return ""
	}
	return w.Drain.Reason
}

// upState is the state of a worker if it answers.
func (t *tx) upState(w *model.Worker) model.WorkerState { return w.UpState(t.usedOn(w.ID).Holds()) }

// undrainWorkers puts workers into service again, all or none. What they still
// run runs on where it is wanted.
func (t *tx) undrainWorkers(c *replogv1.Command, p *replogv1.UndrainWorkers) Result {
	ids, res := t.namedWorkers(p.GetWorkers())
	if res.Rejection != model.RejectNone {
		return res
	}
	repeated := true
	for _, id := range ids {
		if w, ok := t.findWorker(id); !ok || w.Drain == nil {
			continue
		}
		repeated = false
		t.editWorker(id).Drain = nil
		t.recommission(id)
		t.settleDrain(id)
		t.auditLine(c, "undrain worker", string(id))
	}
	return Result{Repeated: repeated}
}

// recommission takes back the executors that were to leave a worker. Of copies
// of a command the newest beyond those wanted are ended instead: they are the
// replacements, and keep nothing. An executor with a driver stays only where it
// is still wanted; else its driver ends it when it is idle.
func (t *tx) recommission(id model.WorkerID) {
	var copies []*model.App
	for _, e := range t.unfinishedOn(id) {
		a, ok := t.findApp(e.App)
		if !ok || e.State != model.ExecutorDecommissioning {
			continue
		}
		if a.Spec.Kind == model.AppKindDriver && !t.wantsBack(a, e) {
			continue
		}
		t.moveExecutor(a, e.ID, model.ExecutorRunning, "")
		if a.Spec.Kind == model.AppKindCommand && !slices.ContainsFunc(copies, func(x *model.App) bool { return x.Number == a.Number }) {
			copies = append(copies, a)
		}
	}
	for _, a := range copies {
		t.trimCopies(a)
	}
}

// wantsBack reports whether an executor that is leaving would be within its
// application's targets and limits.
func (t *tx) wantsBack(a *model.App, e *model.Executor) bool {
	a, ok := t.findApp(a.ID) // as the executors before this one have left it
	if !ok || a.Live[e.Profile] >= model.Wanted(a, e.Profile) {
		return false
	}
	limit := model.CoresLimit(a, *t.meta.settings)
	return limit == 0 || model.CoresCounted(a)+e.Cores <= limit
}

// trimCopies ends the newest copies beyond those wanted.
func (t *tx) trimCopies(a *model.App) {
	list := t.executors.collect(numKey(a.Number))
	for _, e := range slices.Backward(list) {
		now, ok := t.findApp(a.ID)
		if !ok || !e.State.Live() {
			continue
		}
		limit := model.CoresLimit(now, *t.meta.settings)
		over := limit > 0 && model.CoresCounted(now) > limit
		if over || now.Live[e.Profile] > model.Wanted(now, e.Profile) {
			// A copy that is being ended counts against the limit until it is gone;
			// as it leaves on our word it need not.
			t.leave(t.moveExecutor(now, e.ID, model.ExecutorKilling, "it replaced a copy on a worker whose drain has ended"))
		}
	}
}

// leave notes that an executor counts against no limit any more.
func (t *tx) leave(e *model.Executor) {
	if e.Leaving {
		return
	}
	if a, ok := t.findApp(e.App); ok {
		e.Leaving = true
		t.editApp(a.Number).CoresLeaving += e.Cores
		t.hold(a, -e.Cores)
	}
}

// stay is the reverse of leave.
func (t *tx) stay(e *model.Executor) {
	if !e.Leaving {
		return
	}
	if a, ok := t.findApp(e.App); ok {
		e.Leaving = false
		t.editApp(a.Number).CoresLeaving -= e.Cores
		t.hold(a, e.Cores)
	}
}

// stopDrained ends executors on a drained worker on the leader's word.
func (t *tx) stopDrained(c *replogv1.Command, p *replogv1.StopDrained) Result {
	id := model.WorkerID(p.GetWorker())
	w, ok := t.findWorker(id)
	if !ok {
		return reject(model.RejectUnknownWorker, "worker %q is not registered", p.GetWorker())
	}
	if w.Drain == nil || w.Drain.Index != p.GetDrain() {
		return reject(model.RejectEvidence, "worker %s is not under drain %d any more", id, p.GetDrain())
	}
	for _, x := range p.GetExecutors() {
		ref := model.ExecutorRef{App: model.AppID(x.GetApp()), Executor: model.ExecutorID(x.GetExecutor())}
		if t.stopOne(id, ref, fmt.Sprintf("%s; %s", drainReason(w.Drain), p.GetReason())) {
			t.auditLine(c, "stop drained executor", ref.String())
		}
	}
	return Result{}
}

// stopOne has one process on a worker ended, unless it is or has already.
func (t *tx) stopOne(worker model.WorkerID, ref model.ExecutorRef, reason string) bool {
	if model.IsDriver(ref.App) {
		e, d, alive := t.presentAttempt(ref)
		if !alive || e.Worker != worker || !e.State.CanBecome(model.ExecutorKilling) {
			return false
		}
		t.moveAttempt(d, e.ID, model.ExecutorKilling, reason).Leaving = d.Spec.Supervise
		return true
	}
	e, a, alive := t.findExecutor(ref)
	if !alive || e.Worker != worker || !e.State.CanBecome(model.ExecutorKilling) {
		return false
	}
	t.moveExecutor(a, e.ID, model.ExecutorKilling, reason)
	return true
}
