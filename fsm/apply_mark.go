package fsm

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// markWorker applies a verdict of the leader, if what was judged is still so.
func (t *tx) markWorker(c *replogv1.Command, p *replogv1.MarkWorker) Result {
	if res := checkMark(p); res.Rejection != model.RejectNone {
		return res
	}
	id, state := model.WorkerID(p.GetId()), model.WorkerState(p.GetState())
	w, ok := t.findWorker(id)
	if !ok {
		return reject(model.RejectUnknownWorker, "worker %q is not registered", p.GetId())
	}
	if res := checkEvidence(w, p); res.Rejection != model.RejectNone {
		return res
	}
	switch {
	case w.State == state && state != model.WorkerRestarting, state == model.WorkerAlive && w.State.Up():
		return Result{Repeated: true}
	case w.State.Gone():
		return reject(model.RejectTransition, "worker %s is %s; only a new incarnation of it can be %s", id, w.State, state)
	case w.State == model.WorkerRestarting && state != model.WorkerRestarting && t.tick < w.RestartUntil:
		return reject(model.RejectTransition, "worker %s is restarting and may be away for another %d ms", id, w.RestartUntil-t.tick)
	}
	switch state {
	case model.WorkerRestarting:
		t.setWorkerState(t.editWorker(id), state, p.GetReason())
		t.editWorker(id).RestartUntil = t.tick + p.GetRestartWindowMilli()
		t.auditLine(c, "restart worker", string(id))
		return Result{}
	case model.WorkerDead:
		return t.declareDead(c, w, p)
	case model.WorkerAlive: // it answers; whether it is in service is another matter
		t.setWorkerState(t.editWorker(id), t.upState(w), drainOf(w))
		return Result{}
	default: // unreachable: checkMark lets nothing else pass
		t.setWorkerState(t.editWorker(id), state, p.GetReason())
		return Result{}
	}
}

// checkMark checks a verdict on its own.
func checkMark(p *replogv1.MarkWorker) Result {
	state := model.WorkerState(p.GetState())
	switch {
	case state != model.WorkerAlive && state != model.WorkerUnreachable && state != model.WorkerRestarting && state != model.WorkerDead:
		return reject(model.RejectInvalid, "a worker cannot be marked %q", p.GetState())
	case state == model.WorkerRestarting && (p.GetRestartWindowMilli() < 1 || p.GetRestartWindowMilli() > model.MaxRestartMilli):
		return reject(model.RejectInvalid, "worker %s wants to be away for %d ms while it restarts: must be between 1 and %d",
			p.GetId(), p.GetRestartWindowMilli(), model.MaxRestartMilli)
	}
	return Result{}
}

// checkEvidence compares what was judged with what is: the incarnation, the
// reports that were applied, and when the worker was last heard.
func checkEvidence(w *model.Worker, p *replogv1.MarkWorker) Result {
	if w.Incarnation != p.GetIncarnation() || w.ReportSeq != p.GetReportSeq() {
		return reject(model.RejectEvidence, "worker %s is at incarnation %d, report %d; the verdict was on %d, %d",
			w.ID, w.Incarnation, w.ReportSeq, p.GetIncarnation(), p.GetReportSeq())
	}
	if at := p.GetHeardTick(); at > 0 && at < w.HeardTick {
		return reject(model.RejectEvidence, "worker %s was heard at %d, the verdict judged beat %d, answered at %d",
			w.ID, w.HeardTick, p.GetBeat(), at)
	}
	return Result{}
}

// declareDead gives up what runs on a worker. As long as all that is known is
// that its process is gone, executors of singleton applications are left to
// worker_timeout: the copy ends itself before that, and nothing else proves
// that it has ended.
func (t *tx) declareDead(c *replogv1.Command, w *model.Worker, p *replogv1.MarkWorker) Result {
	reason := fmt.Sprintf("its worker is dead: %s", p.GetReason())
	if !p.GetProcessGone() {
		t.loseAllOn(w.ID, reason, false)
	} else if n, lost := t.loseReplaceableOn(w.ID, reason); n > 0 {
		if w.State == model.WorkerUnreachable && lost == 0 {
			return Result{Repeated: true}
		}
		t.auditLine(c, "declare worker process gone", string(w.ID))
		t.setWorkerState(t.editWorker(w.ID), model.WorkerUnreachable,
			fmt.Sprintf("%s; %d singleton executors are given up later", p.GetReason(), n))
		return Result{}
	}
	t.auditLine(c, "declare worker dead", string(w.ID))
	t.setWorkerState(t.editWorker(w.ID), model.WorkerDead, p.GetReason())
	return Result{}
}

// loseReplaceableOn ends the executors on a worker but those of singleton
// applications, and returns how many are kept and how many were ended.
func (t *tx) loseReplaceableOn(id model.WorkerID, reason string) (kept, lost int) {
	for _, e := range t.unfinishedOn(id) {
		if _, d, ok := t.presentAttempt(e.Ref()); ok {
			if d.Spec.Disconnect.Singleton() {
				kept++
				continue
			}
			t.loseAttempt(e, reason, true)
			lost++
			continue
		}
		a, ok := t.findApp(e.App)
		switch {
		case !ok:
		case a.Spec.Disconnect.Singleton():
			kept++
		default:
			t.lose(a, e.ID, reason)
			lost++
		}
	}
	return kept, lost
}
