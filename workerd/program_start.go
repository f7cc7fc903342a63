//go:build linux

package workerd

import (
	"context"
	"errors"
	"time"

	"github.com/hearthd/hearth/model"
)

// errKilledMeanwhile ends the wait for a program.
var errKilledMeanwhile = errors.New("killed while its program was fetched")

// startProgram is start for an executor that runs its application's own program. It waits for that
// without one of the slots in which processes are started: others go on.
func (a *agent) startProgram(e effect) {
	a.jobs.Go(func() {
		program, release, err := a.awaitProgram(e.launch)
		if err != nil {
			a.startFailed(context.WithoutCancel(a.keepers.ctx), e.ref, err)
			return
		}
		defer release()
		if !a.proceed(context.WithoutCancel(a.keepers.ctx), e.ref) {
			return
		}
		e.program = program
		ctx, cancel := context.WithTimeout(a.keepers.ctx, keeperCallTimeout)
		defer cancel()
		a.start(ctx, e)
	})
}

// awaitProgram waits for the program of an executor, until that is killed or the leader would lose its
// patience with the launch.
func (a *agent) awaitProgram(o *model.LaunchOrder) (path string, release func(), err error) {
	ctx, cancel := context.WithTimeout(a.keepers.ctx, programWait)
	defer cancel()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	return a.programs.get(ctx, o, func() { a.fetching(ctx, o.Ref, true, kill) })
}

// fetching says that something is on its way without which ref cannot be started. first: for the first
// time for this launch.
func (a *agent) fetching(ctx context.Context, ref model.ExecutorRef, first bool, kill context.CancelCauseFunc) {
	// A placement of which nothing is heard is lost sooner than a launch that takes its time.
	_ = a.do(ctx, func() { a.table.fetching(ref) })
	if first {
		a.jobs.Go(func() { a.watchKill(ctx, ref, kill) })
	}
}

// watchKill ends a wait when its executor is to end.
func (a *agent) watchKill(ctx context.Context, ref model.ExecutorRef, kill context.CancelCauseFunc) {
	tick := time.NewTicker(programKillPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		killed := false
		if a.do(ctx, func() { killed = a.table.killed(ref) }) != nil {
			return
		}
		if killed {
			kill(errKilledMeanwhile)
			return
		}
	}
}

// fetching says that ref's program is on its way: it is being launched.
func (t *table) fetching(ref model.ExecutorRef) {
	if e := t.execs[ref]; e != nil && e.starting && !e.report.State.Terminal() {
		t.reports.put(e.report)
	}
}

// killed reports whether ref is to end, or is not known any more.
func (t *table) killed(ref model.ExecutorRef) bool {
	e := t.execs[ref]
	return e == nil || e.kill != nil || e.report.State.Terminal()
}
