//go:build linux

package workerd

import (
	"context"

	"github.com/hearthd/hearth/model"
)

// awaited is a launch that waits for its program or its artifacts, which may take an hour. A planned restart does not
// wait for that: the launch is handed over with everything else, and the next start begins it anew.
type awaited struct {
	order *model.LaunchOrder
	// handed: it belongs to the next start of the worker; nothing is started and no failure is reported meanwhile.
	handed bool
	// idle: whoever waited for it has given up, because it was handed over.
	idle bool
}

// awaits says whether a launch has content to wait for.
func awaits(o *model.LaunchOrder) bool { return o.Spec.Program.Set() || len(o.Spec.Artifacts) > 0 }

// proceed says that everything is here that ref has waited for, and whether it is to be started now.
func (t *table) proceed(ref model.ExecutorRef) bool {
	e := t.execs[ref]
	switch {
	case e == nil || e.content == nil:
		return true // it has ended: whoever starts it is told so
	case e.content.handed:
		e.content.idle = true
		return false
	}
	e.content = nil
	return true
}

// handOver gives launches that wait for content to the next start. One that cannot be written down there ends as one
// that was lost with its worker.
func (t *table) handOver() {
	for _, e := range t.sorted() {
		if e.content == nil || e.content.handed || e.report.State.Terminal() {
			continue
		}
		o := e.content.order
		err := t.rec.append(journalRecord{Kind: recordLaunch, Ref: e.ref, Run: e.kind, MemoryMiB: e.memoryMiB, Order: o, Secret: o.Secret.Reveal()})
		if err != nil {
			t.log.Error("launch not handed over: the next start reports it lost", "app", e.ref.App, "executor", e.ref.Executor, "err", err)
			continue
		}
		e.content.handed = true
	}
}

// takeBack is the end of a planned restart that does not take place: what has given up meanwhile begins anew.
func (t *table) takeBack() []effect {
	var out []effect
	for _, e := range t.sorted() {
		if e.content == nil || !e.content.handed {
			continue
		}
		e.content.handed = false
		t.record(journalRecord{Kind: recordTaken, Ref: e.ref})
		if e.content.idle {
			e.content.idle = false
			out = append(out, t.again(e)...)
		}
	}
	return out
}

// resume begins what the last start has handed over.
func (t *table) resume(e *executor) []effect {
	t.record(journalRecord{Kind: recordTaken, Ref: e.ref}) // a crash from now on ends it, as it ends all others
	e.starting, e.content.handed = true, false
	t.log.Info("launching executor again that the last start has handed over", "app", e.ref.App, "executor", e.ref.Executor)
	return t.again(e)
}

func (t *table) again(e *executor) []effect {
	if e.kill != nil {
		return t.startFailed(e.ref, errKilledMeanwhile, false)
	}
	return []effect{{kind: effectStart, ref: e.ref, launch: e.content.order}}
}

// proceed asks the table whether ref, for which everything is here, is to be started.
func (a *agent) proceed(ctx context.Context, ref model.ExecutorRef) bool {
	now := false
	err := a.do(ctx, func() { now = a.table.proceed(ref) })
	return err == nil && now
}
