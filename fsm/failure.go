package fsm

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
)

// The failure policy of design 8. All of it is in cluster-clock ticks.

// judge settles what the end of an executor means for its active application.
// before is the executor's state before it ended.
func (t *tx) judge(a *model.App, e *model.Executor, before model.ExecutorState) {
	stable := t.stableSince(a)
	if before == model.ExecutorRunning {
		stable = max(stable, stableAt(e, t.tick))
	}
	t.refreshSince(a, stable)
	switch e.Cause {
	case model.CauseClean:
		if !e.Leaving || a.Spec.CompletionsWanted() > 0 {
			t.countClean(a)
		}
	case model.CauseApp, model.CauseStart:
		t.countFailure(a, e)
	case model.CauseNone, model.CauseInfra, model.CauseKill:
	}
}

// countClean counts a clean exit as a completion, or makes the replacement
// wait, so that exits just before an application ends start nothing.
func (t *tx) countClean(a *model.App) {
	want := a.Spec.CompletionsWanted()
	if want == 0 {
		a.BackoffUntil = max(a.BackoffUntil, t.tick+model.BackoffFirstMilli)
		return
	}
	a.Completed++
	if a.Completed >= want {
		t.endApp(a, model.AppFinished, 0, fmt.Sprintf("all %d completions are in", want))
	}
}

func (t *tx) countFailure(a *model.App, e *model.Executor) {
	if a.ExitCode == 0 {
		a.ExitCode = exitCodeOf(e)
	}
	started := e.LaunchTick
	if started == 0 {
		started = e.PlacedTick
	}
	a.Failures = append(a.Failures, model.Failure{
		Worker: e.Worker, Tick: t.tick, Cause: e.Cause,
		Quick: e.Cause == model.CauseStart || t.tick-started < model.QuickExitMilli,
	})
	if n := len(a.Failures) - model.MaxFailuresKept; n > 0 {
		a.Failures = slices.Delete(a.Failures, 0, n)
	}
	t.exclude(a, e)
	var last int64
	a.Backoff, last = backoff(a.Failures)
	a.BackoffUntil = max(a.BackoffUntil, last+a.Backoff)

	switch {
	case a.Spec.Kind == model.AppKindCommand && a.Spec.Restart == model.RestartNever:
		t.endApp(a, model.AppFailed, exitCodeOf(e), fmt.Sprintf("executor %d failed and is not restarted: %s", e.ID, describe(e)))
	case len(a.Failures) >= model.FailuresLimit && !t.anyRunning(a):
		t.endApp(a, model.AppFailed, a.ExitCode, fmt.Sprintf("%d executors failed within %d minutes and none is running; the last, executor %d: %s",
			len(a.Failures), model.FailureWindowMilli/60000, e.ID, describe(e)))
	}
}

// exclude keeps the application off a worker where it has failed too often, as
// long as there is another one for it: with nowhere else to go it is tried on,
// with growing pauses, until it has failed too often altogether.
func (t *tx) exclude(a *model.App, e *model.Executor) {
	quick, start := 0, 0
	for _, f := range a.Failures {
		if f.Worker != e.Worker {
			continue
		}
		if f.Quick {
			quick++
		}
		if f.Cause == model.CauseStart {
			start++
		}
	}
	if quick < model.QuickFailuresLimit && start < model.StartFailuresLimit {
		return
	}
	until := t.tick + model.ExclusionMilli
	i := slices.IndexFunc(a.Excluded, func(x model.Exclusion) bool { return x.Worker == e.Worker })
	if i < 0 {
		i = len(a.Excluded)
		a.Excluded = append(a.Excluded, model.Exclusion{Worker: e.Worker})
	}
	a.Excluded[i].UntilTick = until
	if !t.elsewhere(a, a.Profiles[e.Profile]) {
		a.Excluded = nil
	}
}

// elsewhere reports whether a worker that the application is not kept off
// could hold one of its executors if it were empty.
func (t *tx) elsewhere(a *model.App, p model.Profile) bool {
	found := false
	t.workers.walk(nil, func(w *model.Worker) bool {
		found = schedulable(w) && !excluded(a, w.ID, t.tick) && model.HasLabels(w, a.Spec.Require) &&
			model.Fits(model.FreeOf(w.Offer, model.Usage{}), max(1, p.Cores), p.MemoryMiB, p.Resources)
		return !found
	})
	return found
}

// backoff is the pause after the last of some rounds of failures, 1, 2, 4 …
// 30 s, and when that round began. What fails during a pause was started before
// it and is of the same round: several executors that die at one moment cost
// one pause.
func backoff(failures []model.Failure) (pause, since int64) {
	for _, f := range failures {
		switch {
		case pause == 0:
			pause, since = model.BackoffFirstMilli, f.Tick
		case f.Tick >= since+pause:
			pause, since = min(2*pause, model.BackoffMaxMilli), f.Tick
		}
	}
	return pause, since
}

func (t *tx) anyRunning(a *model.App) bool {
	found := false
	t.executors.walk(numKey(a.Number), func(e *model.Executor) bool {
		found = e.State == model.ExecutorRunning
		return !found
	})
	return found
}

// stableAt is the tick at which a run became a stable one; 0 if it has not.
func stableAt(e *model.Executor, tick int64) int64 {
	if e.RunningTick == 0 || tick-e.RunningTick < model.StableRunMilli {
		return 0
	}
	return e.RunningTick + model.StableRunMilli
}

// stableSince is the newest tick at which a run of the application became a
// stable one, over those that are still running. A stable run resets the count
// once, when it becomes stable: an executor that runs for hours must not hide
// that all others fail.
func (t *tx) stableSince(a *model.App) int64 { return stableSince(a, t.tick, t.executors.walk) }

func stableSince(a *model.App, tick int64, executors func(prefix []byte, visit func(*model.Executor) bool)) int64 {
	if len(a.Failures) == 0 {
		return 0
	}
	var since int64
	executors(numKey(a.Number), func(e *model.Executor) bool {
		if e.State == model.ExecutorRunning {
			since = max(since, stableAt(e, tick))
		}
		return true
	})
	return since
}

// forgiven reports whether a failure no longer counts.
func forgiven(f model.Failure, tick, stableSince int64) bool {
	return f.Tick <= stableSince || tick-f.Tick > model.FailureWindowMilli
}

func (t *tx) refresh(a *model.App) { t.refreshSince(a, t.stableSince(a)) }

// refreshSince drops failures that no longer count and exclusions that are
// over; a must be editable.
func (t *tx) refreshSince(a *model.App, stableSince int64) {
	a.Failures = slices.DeleteFunc(a.Failures, func(f model.Failure) bool { return forgiven(f, t.tick, stableSince) })
	if len(a.Failures) == 0 {
		a.Failures, a.Backoff = nil, 0
	}
	a.Excluded = slices.DeleteFunc(a.Excluded, func(x model.Exclusion) bool { return x.UntilTick <= t.tick })
	if len(a.Excluded) == 0 {
		a.Excluded = nil
	}
}

// exitCodeOf is the code that stands for a failed executor, as a shell has it:
// 128+n for signal n; 1 if the code is not known.
func exitCodeOf(e *model.Executor) int {
	switch {
	case e.Signal > 0:
		return 128 + e.Signal
	case e.ExitCode > 0:
		return e.ExitCode
	}
	return 1
}

// describe says how an executor failed, for a person.
func describe(e *model.Executor) string {
	return fmt.Sprintf("%s on worker %s", e.Failure(), e.Worker)
}
