//go:build linux

package workerd

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// restore rebuilds the table from the records of a journal. Executors that had not ended are as if
// running until attach says otherwise.
func (t *table) restore(records []journalRecord) {
	for _, r := range records {
		e := t.execs[r.Ref]
		switch r.Kind {
		case recordLaunch:
			if _, buried := t.tombs[r.Ref]; e == nil && !buried {
				report := model.ExecutorReport{Ref: r.Ref, State: model.ExecutorLaunching, ExitCode: -1}
				e = &executor{ref: r.Ref, kind: r.Run, memoryMiB: r.MemoryMiB, report: report}
				t.execs[r.Ref] = e
			}
			if e != nil && r.Order != nil {
				r.Order.Secret = model.Secret(r.Secret)
				e.content = &awaited{order: r.Order, handed: true}
			}
		case recordTaken:
			if e != nil {
				e.content = nil
			}
		case recordStart:
			if e != nil {
				e.proc, e.report.PID, e.content = r.Proc, r.Proc.PID, nil
			}
		case recordKill:
			if e != nil {
				e.kill = &killing{reason: r.Reason, infra: r.Infra, grace: milli(r.GraceMS, 0, keeper.MaxGrace)}
			}
		case recordEnd:
			if e == nil {
				e = &executor{ref: r.Ref}
				t.execs[r.Ref] = e
			}
			e.report, e.content = *r.Report, nil
		case recordAck:
			if e != nil && e.report.State.Terminal() {
				t.bury(e)
			}
		case recordAppEnded:
			t.ended[r.App] = true
		case recordAppCleaned:
			delete(t.ended, r.App)
		}
	}
	for _, e := range t.sorted() {
		if e.report.State.Terminal() {
			t.reports.put(e.report)
		}
	}
}

// records returns the shortest journal that restores the table.
func (t *table) records() []journalRecord {
	var out []journalRecord
	for _, ref := range t.tombOrder {
		report := t.tombs[ref]
		out = append(out, journalRecord{Kind: recordEnd, Ref: ref, Report: &report}, journalRecord{Kind: recordAck, Ref: ref})
	}
	for _, e := range t.sorted() {
		if e.report.State.Terminal() {
			report := e.report
			out = append(out, journalRecord{Kind: recordEnd, Ref: e.ref, Report: &report})
			continue
		}
		launch := journalRecord{Kind: recordLaunch, Ref: e.ref, Run: e.kind, MemoryMiB: e.memoryMiB}
		if e.content != nil && e.content.handed {
			launch.Order, launch.Secret = e.content.order, e.content.order.Secret.Reveal()
		}
		out = append(out, launch)
		if e.proc != nil {
			out = append(out, journalRecord{Kind: recordStart, Ref: e.ref, Proc: e.proc})
		}
		if e.kill != nil {
			out = append(out, journalRecord{Kind: recordKill, Ref: e.ref, Reason: e.kill.reason, Infra: e.kill.infra, GraceMS: e.kill.grace.Milliseconds()})
		}
	}
	var apps []model.AppID
	for app := range t.ended {
		apps = append(apps, app)
	}
	slices.Sort(apps)
	for _, app := range apps {
		out = append(out, journalRecord{Kind: recordAppEnded, App: app})
	}
	return out
}

// attach compares the table with what a keeper has, after the worker or the keeper was started
// anew. What the keeper runs is adopted, what it has seen end has ended, and what it does not know
// is lost.
func (t *table) attach(entries []keeper.Entry, now time.Time) []effect {
	var out []effect
	seen := make(map[model.ExecutorRef]bool, len(entries))
	for _, k := range entries {
		ref, err := model.ParseExecutorRef(k.Key)
		if err != nil {
			t.log.Warn("the keeper has a process that is no executor", "key", k.Key)
			continue
		}
		seen[ref] = true
		out = append(out, t.attachOne(ref, k, now)...)
	}
	for _, e := range t.sorted() {
		switch {
		case seen[e.ref] || e.report.State.Terminal():
		case e.content != nil && e.starting: // another keeper, and it goes on waiting
		case e.content != nil:
			out = append(out, t.resume(e)...)
		default:
			out = append(out, t.end(e, lost(e.ref, "its process was lost with the worker's process or its keeper"))...)
		}
	}
	for app := range t.ended {
		out = append(out, t.cleanable(app)...)
	}
	return out
}

func (t *table) attachOne(ref model.ExecutorRef, k keeper.Entry, now time.Time) []effect {
	if k.State == keeper.StateExited && k.Exit != nil {
		return t.exited(ref, k.Proc.PID, *k.Exit)
	}
	e := t.execs[ref]
	if e == nil || e.report.State.Terminal() {
		// Not ours to run: the leader was told, or will be told, that it is over.
		return []effect{{kind: effectKill, ref: ref}}
	}
	out := t.started(ref, keeper.Started{Proc: k.Proc}, now)
	if k.Stuck {
		t.stuck(ref)
	}
	return out
}
