//go:build linux

package workerd

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// effectKind says what the agent is to do.
type effectKind int

const (
	effectStart  effectKind = iota + 1 // prepare and start launch
	effectKill                         // end what runs under ref
	effectForget                       // the keeper need not remember ref any more
	effectClean                        // remove what app's executors shared
)

// effect is one thing that the table wants done. Effects may be done in any order and more than
// once.
type effect struct {
	kind   effectKind
	ref    model.ExecutorRef
	grace  time.Duration
	launch *model.LaunchOrder
	app    model.AppID
	// program is the file that a start runs; "" = what the launcher says.
	program string
	// prepared is what a start gives the keeper, if that was made before; nil = not yet.
	prepared *keeper.StartRequest
}

// executor is one executor that the leader has not yet been told, or not yet acknowledged, to be
// over.
type executor struct {
	ref       model.ExecutorRef
	kind      model.AppKind
	memoryMiB int64
	report    model.ExecutorReport // what is known of it now
	starting  bool                 // no process yet
	settleAt  time.Time            // when a process that still lives is called RUNNING; zero: never
	kill      *killing             // we were asked to end it
	proc      *keeper.Proc         // its process, once there is one
	content   *awaited             // what its launch waits for; nil = nothing
}

// killing says why an executor is to end.
type killing struct {
	reason string
	grace  time.Duration
	// infra: it ends because of this worker, not because somebody wanted it to.
	infra bool
}

// recorder makes records outlive this process; *journal is one.
type recorder interface {
	append(records ...journalRecord) error
}

// table is what this worker knows of executors: which it has, which it had, and which must never
// be started. It compares orders and events with that and answers with effects. It has no clock and
// touches no file but through rec; one goroutine uses it.
type table struct {
	log     hclog.Logger
	rec     recorder
	reports *reports

	execs map[model.ExecutorRef]*executor
	// settling are those whose settleAt may be set.
	settling map[model.ExecutorRef]*executor
	// tombs are executors whose end the leader has acknowledged, oldest first in tombOrder.
	tombs     map[model.ExecutorRef]model.ExecutorReport
	tombOrder []model.ExecutorRef
	ended     map[model.AppID]bool // applications that are over but not yet cleaned up
	stopping  bool
}

func newTable(log hclog.Logger, rec recorder, reports *reports) *table {
	return &table{
		log: log, rec: rec, reports: reports,
		execs:    make(map[model.ExecutorRef]*executor),
		settling: make(map[model.ExecutorRef]*executor),
		tombs:    make(map[model.ExecutorRef]model.ExecutorReport),
		ended:    make(map[model.AppID]bool),
	}
}

// record makes r durable as far as possible. What was done cannot be undone because a disk is full,
// so a failure is told and the worker goes on with what it knows in memory.
func (t *table) record(records ...journalRecord) {
	if err := t.rec.append(records...); err != nil {
		t.log.Error("journal not written: a restart now would not know of this", "err", err)
	}
}

// launch takes on an executor. An executor that is or was known here is not started again: the
// leader gets the answer it seems to have missed.
func (t *table) launch(o *model.LaunchOrder) []effect {
	if t.repeat(o.Ref) {
		return nil
	}
	if t.stopping {
		// No answer: one would make the leader place the next executor here at once, and so on
		// until this worker has left. LEFT replaces them all elsewhere.
		t.log.Debug("not launching: the worker is stopping", "app", o.Ref.App, "executor", o.Ref.Executor)
		return nil
	}
	e := &executor{ref: o.Ref, kind: o.Spec.Kind, memoryMiB: o.MemoryMiB, starting: true}
	e.report = model.ExecutorReport{Ref: o.Ref, State: model.ExecutorLaunching, ExitCode: -1}
	if awaits(o) {
		e.content = &awaited{order: o}
	}
	t.execs[o.Ref] = e
	// In the journal before anything happens: a process that the next start does not know would be
	// nobody's.
	err := t.rec.append(journalRecord{Kind: recordLaunch, Ref: o.Ref, Run: e.kind, MemoryMiB: o.MemoryMiB})
	if err != nil {
		return t.end(e, startFailure(o.Ref, err))
	}
	t.log.Info("launching executor", "app", o.Ref.App, "executor", o.Ref.Executor, "cores", o.Cores, "memory_mib", o.MemoryMiB)
	return []effect{{kind: effectStart, ref: o.Ref, launch: o}}
}

// repeat sends what is known of ref once more and reports whether anything is.
func (t *table) repeat(ref model.ExecutorRef) bool {
	if e := t.execs[ref]; e != nil {
		if !e.starting {
			t.reports.put(e.report)
		}
		return true
	}
	if r, ok := t.tombs[ref]; ok {
		t.reports.put(r)
		return true
	}
	return false
}

// killOrder ends an executor. For one never heard of it leaves a tombstone, so that a launch which
// comes later starts nothing.
func (t *table) killOrder(o *model.KillOrder) []effect {
	e := t.execs[o.Ref]
	if e == nil {
		if t.repeat(o.Ref) {
			return nil
		}
		e = &executor{ref: o.Ref}
		t.execs[o.Ref] = e
		return t.end(e, model.ExecutorReport{
			Ref: o.Ref, State: model.ExecutorKilled, Cause: model.CauseKill, ExitCode: -1,
			Reason: withReason("killed before it was launched", o.Reason),
		})
	}
	if e.report.State.Terminal() {
		t.reports.put(e.report)
		return nil
	}
	return t.kill(e, killing{reason: o.Reason, grace: milli(o.GraceMilli, 0, keeper.MaxGrace)})
}

func (t *table) kill(e *executor, k killing) []effect {
	if e.kill == nil || (e.kill.infra && !k.infra) {
		e.kill = &k
		t.record(journalRecord{Kind: recordKill, Ref: e.ref, Reason: k.reason, Infra: k.infra, GraceMS: k.grace.Milliseconds()})
		t.log.Info("ending executor", "app", e.ref.App, "executor", e.ref.Executor, "reason", k.reason, "grace", k.grace)
	}
	if e.starting {
		return nil // as soon as there is something to end
	}
	return []effect{{kind: effectKill, ref: e.ref, grace: k.grace}}
}

// appEnded remembers that app is over. It kills nothing.
func (t *table) appEnded(app model.AppID) []effect {
	if !t.ended[app] {
		t.ended[app] = true
		t.record(journalRecord{Kind: recordAppEnded, App: app})
	}
	return t.cleanable(app)
}

// cleanable returns the clean-up of app if it is over and no executor of it is left here.
func (t *table) cleanable(app model.AppID) []effect {
	if !t.ended[app] {
		return nil
	}
	for ref, e := range t.execs {
		if ref.App == app && !e.report.State.Terminal() {
			return nil
		}
	}
	return []effect{{kind: effectClean, app: app}}
}

// cleaned says that what app's executors shared is gone.
func (t *table) cleaned(app model.AppID) {
	if t.ended[app] {
		delete(t.ended, app)
		t.record(journalRecord{Kind: recordAppCleaned, App: app})
	}
}

// started says that the keeper runs ref's process.
func (t *table) started(ref model.ExecutorRef, p keeper.Started, now time.Time) []effect {
	e := t.execs[ref]
	if e == nil || e.report.State.Terminal() {
		return []effect{{kind: effectKill, ref: ref}} // its end was already reported: it must not live
	}
	e.starting = false
	e.report.PID, e.proc = p.PID, &p.Proc
	t.record(journalRecord{Kind: recordStart, Ref: ref, Proc: e.proc})
	if e.kind == model.AppKindCommand {
		e.settleAt = now.Add(model.CommandSettleMilli * time.Millisecond)
		t.settling[ref] = e
	}
	t.reports.put(e.report)
	if e.kill != nil {
		return []effect{{kind: effectKill, ref: ref, grace: e.kill.grace}}
	}
	return nil
}

// startFailed says that ref's process could not be started. outage: the fault is the keeper's, not
// the executor's.
func (t *table) startFailed(ref model.ExecutorRef, err error, outage bool) []effect {
	e := t.execs[ref]
	if e == nil || e.report.State.Terminal() {
		return nil
	}
	switch {
	case e.content != nil && e.content.handed:
		e.content.idle = true
		return nil
	case e.kill != nil && !e.kill.infra:
		return t.end(e, model.ExecutorReport{
			Ref: ref, State: model.ExecutorKilled, Cause: model.CauseKill, ExitCode: -1,
			Reason: withReason("killed before it was started", e.kill.reason),
		})
	case outage || e.kill != nil:
		return t.end(e, lost(ref, clip(err.Error())))
	}
	return t.end(e, startFailure(ref, err))
}

// exited says that nothing of ref runs any more.
func (t *table) exited(ref model.ExecutorRef, pid int, x keeper.Exit) []effect {
	e := t.execs[ref]
	if e == nil {
		return []effect{{kind: effectForget, ref: ref}}
	}
	if e.report.State.Terminal() {
		return nil // forgotten when its end is acknowledged
	}
	if pid != 0 {
		e.report.PID = pid
	}
	return t.end(e, e.verdict(x))
}

// stuck says that ref still runs a while after SIGKILL.
func (t *table) stuck(ref model.ExecutorRef) {
	e := t.execs[ref]
	if e == nil || e.report.State.Terminal() || e.report.State == model.ExecutorStuck {
		return
	}
	e.settleAt = time.Time{}
	e.report.State = model.ExecutorStuck
	e.report.Reason = "still there after SIGKILL"
	t.log.Error("executor cannot be ended", "app", ref.App, "executor", ref.Executor, "pid", e.report.PID)
	t.reports.put(e.report)
}

// settle calls RUNNING what has lived long enough by now, and returns when to ask again; zero means
// that nothing waits.
func (t *table) settle(now time.Time) (next time.Time) {
	for ref, e := range t.settling {
		if e.settleAt.After(now) {
			if next.IsZero() || e.settleAt.Before(next) {
				next = e.settleAt
			}
			continue
		}
		delete(t.settling, ref)
		if e.settleAt.IsZero() {
			continue // it has ended, or is stuck
		}
		e.settleAt = time.Time{}
		e.report.State = model.ExecutorRunning
		t.reports.put(e.report)
	}
	return next
}

// end makes r the last word on e.
func (t *table) end(e *executor, r model.ExecutorReport) []effect {
	r.PID = e.report.PID
	e.report = r
	e.starting, e.content, e.settleAt = false, nil, time.Time{}
	t.record(journalRecord{Kind: recordEnd, Ref: e.ref, Report: &r})
	t.reports.put(r)
	t.log.Info("executor ended", "app", e.ref.App, "executor", e.ref.Executor, "state", r.State, "reason", r.Reason)
	return t.cleanable(e.ref.App)
}

// acknowledged says that the leader has committed the end of ref.
func (t *table) acknowledged(ref model.ExecutorRef) []effect {
	e := t.execs[ref]
	if e == nil || !e.report.State.Terminal() {
		return nil
	}
	t.bury(e)
	t.record(journalRecord{Kind: recordAck, Ref: ref})
	return []effect{{kind: effectForget, ref: ref}}
}

func (t *table) bury(e *executor) {
	delete(t.execs, e.ref)
	t.tombs[e.ref] = e.report
	t.tombOrder = append(t.tombOrder, e.ref)
	if n := len(t.tombOrder) - MaxTombstones; n > 0 {
		for _, old := range t.tombOrder[:n] {
			delete(t.tombs, old)
		}
		t.tombOrder = slices.Delete(t.tombOrder, 0, n)
	}
}

// stop ends everything because the worker goes away; nothing is started from now on.
func (t *table) stop(grace time.Duration) []effect {
	t.stopping = true
	var out []effect
	for _, e := range t.sorted() {
		if !e.report.State.Terminal() {
			out = append(out, t.kill(e, killing{reason: "the worker is stopping", grace: grace, infra: true})...)
		}
	}
	return out
}

// starting counts executors of which it is not known yet whether they have a process, without those that have not
// come so far because they wait for content.
func (t *table) starting() int {
	n := 0
	for _, e := range t.execs {
		if e.starting && e.content == nil && !e.report.State.Terminal() {
			n++
		}
	}
	return n
}

// live counts executors that have not ended.
func (t *table) live() int {
	n := 0
	for _, e := range t.execs {
		if !e.report.State.Terminal() {
			n++
		}
	}
	return n
}

// alive says whether ref has not ended.
func (t *table) alive(ref model.ExecutorRef) bool {
	e := t.execs[ref]
	return e != nil && !e.report.State.Terminal()
}

// uses says whether anything of app may still run or be cleaned up here.
func (t *table) uses(app model.AppID) bool {
	for ref, e := range t.execs {
		if ref.App == app && !e.report.State.Terminal() {
			return true
		}
	}
	return t.ended[app]
}

// processes lists the processes of executors that have not ended.
func (t *table) processes() []keeper.Proc {
	var out []keeper.Proc
	for _, e := range t.sorted() {
		if e.proc != nil && !e.report.State.Terminal() {
			out = append(out, *e.proc)
		}
	}
	return out
}

// inventory lists every executor whose end was not yet acknowledged, in order of id.
func (t *table) inventory() []model.ExecutorReport {
	var out []model.ExecutorReport
	for _, e := range t.sorted() {
		out = append(out, e.report)
	}
	return out
}

func (t *table) sorted() []*executor {
	return slices.SortedFunc(maps.Values(t.execs), func(a, b *executor) int { return a.ref.Compare(b.ref) })
}

func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return clip(fmt.Sprintf("%s: %s", what, reason))
}

func clip(s string) string {
	if len(s) > model.MaxReasonBytes {
		return s[:model.MaxReasonBytes-3] + "..."
	}
	return s
}

// milli turns milliseconds from the wire into a duration within bounds.
func milli(ms int64, low, high time.Duration) time.Duration {
	if ms < 0 || ms > high.Milliseconds() {
		ms = high.Milliseconds()
	}
	return max(low, time.Duration(ms)*time.Millisecond)
}
