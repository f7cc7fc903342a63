package fsm

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func (t *tx) killExecutors(c *replogv1.Command, p *replogv1.KillExecutors) Result {
	if model.IsDriver(model.AppID(p.GetApp())) {
		return t.killAttempts(c, p)
	}
	a, ok := t.findApp(model.AppID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	}
	if res, ok := mayEnd(c, a); !ok {
		return res
	}
	for _, id := range p.GetExecutors() {
		if id < 0 || model.ExecutorID(id) >= a.NextExecutor {
			return reject(model.RejectUnknownExecutor, "executor %s/%d never existed", a.ID, id)
		}
	}
	reason := p.GetReason()
	if reason == "" {
		reason = "killed"
	}
	for _, id := range p.GetExecutors() {
		e, alive := t.executors.get(executorKey(a.Number, model.ExecutorID(id)))
		if !alive || !e.State.CanBecome(model.ExecutorKilling) {
			continue
		}
		own := t.moveExecutor(a, e.ID, model.ExecutorKilling, reason)
		if p.GetFailedToStart() {
			own.Cause = model.CauseStart
		}
		t.auditLine(c, "kill executor", e.Ref().String())
	}
	return Result{App: a.ID}
}

func (t *tx) reportExecutors(p *replogv1.ReportExecutors) Result {
	id := model.WorkerID(p.GetWorker())
	w, ok := t.findWorker(id)
	if !ok {
		return reject(model.RejectUnknownWorker, "worker %q is not registered", p.GetWorker())
	}
	if w.Incarnation != p.GetIncarnation() {
		return reject(model.RejectIncarnation, "worker %s is in incarnation %d; the report is of %d", id, w.Incarnation, p.GetIncarnation())
	}
	if w.State.Gone() {
		return reject(model.RejectWorkerNotAlive, "worker %s is %s: %s", id, w.State, w.StateReason)
	}
	if p.GetSeq() <= w.ReportSeq {
		return Result{Repeated: true}
	}
	t.heard(id).ReportSeq = p.GetSeq()
	for _, r := range p.GetExecutors() {
		rep := ReportFromProto(r)
		if model.IsDriver(rep.Ref.App) {
			t.reportAttempt(id, p.GetIncarnation(), rep)
			continue
		}
		e, a, alive := t.findExecutor(rep.Ref)
		if !alive || e.Worker != id || e.Incarnation != p.GetIncarnation() {
			continue
		}
		t.applyReport(a, e.ID, rep)
	}
	return Result{}
}

// applyReport applies what a worker says of an executor that it holds; what is
// late or illegal changes nothing.
func (t *tx) applyReport(a *model.App, id model.ExecutorID, rep model.ExecutorReport) {
	e, ok := t.executors.get(executorKey(a.Number, id))
	if !ok {
		return
	}
	state := rep.State
	if state == model.ExecutorRunning && a.Spec.Kind == model.AppKindDriver {
		// Only the driver can say that its executor has registered with it.
		state = model.ExecutorLaunching
	}
	if state.Terminal() {
		t.endExecutor(a, id, endingOf(e, rep))
		return
	}
	reported := state == model.ExecutorLaunching || state == model.ExecutorRunning || state == model.ExecutorStuck
	if reported && rep.PID > 0 && e.PID != rep.PID {
		t.editExecutor(a, id).PID = rep.PID
	}
	if reported && e.State.CanBecome(state) {
		t.moveExecutor(a, id, state, rep.Reason)
	}
}

// maxSignal is the highest signal number that there is.
const maxSignal = 127

// endingOf settles the cause of an end: the state says most of it, and one who
// was being killed died of that unless it had done its work.
func endingOf(e *model.Executor, rep model.ExecutorReport) ending {
	end := ending{state: rep.State, exitCode: max(rep.ExitCode, -1), reason: rep.Reason}
	if rep.Signal > 0 && rep.Signal <= maxSignal {
		end.signal = rep.Signal
	}
	switch rep.State {
	case model.ExecutorExited:
		end.cause = model.CauseClean
		if rep.ExitCode != 0 || rep.Signal != 0 {
			end.state, end.cause = model.ExecutorFailed, model.CauseApp
		}
	case model.ExecutorFailed:
		end.cause = model.CauseApp
		if rep.Cause == model.CauseStart || rep.Cause == model.CauseInfra || rep.Cause == model.CauseKill {
			end.cause = rep.Cause
		}
	case model.ExecutorKilled:
		end.cause = model.CauseKill
	default:
		end.state, end.cause = model.ExecutorLost, model.CauseInfra
	}
	if !e.State.Live() && end.cause != model.CauseClean && end.cause != model.CauseInfra {
		end.cause = model.CauseKill
		if e.Cause != model.CauseNone {
			// It is being killed because it failed.
			end.state, end.cause, end.reason = model.ExecutorFailed, e.Cause, e.Reason
		}
	}
	return end
}

func (t *tx) confirmExecutors(p *replogv1.ConfirmExecutors) Result {
	a, ok := t.findApp(model.AppID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	}
	if a.State.Terminal() {
		return reject(model.RejectAppEnded, "application %s is %s already: %s", a.ID, a.State, a.Reason)
	}
	for _, id := range p.GetExecutors() {
		e, _, alive := t.findExecutor(model.ExecutorRef{App: a.ID, Executor: model.ExecutorID(id)})
		if alive && e.State.CanBecome(model.ExecutorRunning) {
			t.moveExecutor(a, e.ID, model.ExecutorRunning, "")
		}
	}
	return Result{App: a.ID}
}

func (t *tx) expireExecutors(p *replogv1.ExpireExecutors) Result {
	for _, x := range p.GetExecutors() {
		ref := model.ExecutorRef{App: model.AppID(x.GetApp()), Executor: model.ExecutorID(x.GetExecutor())}
		if e, _, alive := t.presentAttempt(ref); alive {
			if e.ChangeIndex == x.GetChangeIndex() {
				t.loseAttempt(e, x.GetReason(), false)
			}
			continue
		}
		e, a, alive := t.findExecutor(ref)
		if alive && e.ChangeIndex == x.GetChangeIndex() {
			t.lose(a, e.ID, x.GetReason())
		}
	}
	return Result{}
}
