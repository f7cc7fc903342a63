//go:build linux

//nolint:contextcheck // jobs outlive whoever asks for them, on purpose
package workerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// perform does what the table wants, or notes it for when the journal is on disk. Nothing in it
// blocks: calls to the keeper run as jobs, whose results come back through do.
func (a *agent) perform(effects []effect) {
	if a.gathering {
		a.effects = append(a.effects, effects...)
		return
	}
	for _, e := range effects {
		switch e.kind {
		case effectStart:
			switch {
			case e.launch.Spec.Program.Set():
				a.startProgram(e)
			case len(e.launch.Spec.Artifacts) > 0:
				a.startArtifacts(e)
			default:
				a.job(func(ctx context.Context) { a.start(ctx, e) })
			}
		case effectKill:
			a.job(func(ctx context.Context) { a.kill(ctx, e) })
		case effectForget:
			a.job(func(ctx context.Context) { a.forget(ctx, e) })
		case effectClean:
			a.clean(e.app)
		}
	}
}

// job runs f beside the agent. Their number is bounded by that of executors.
//

func (a *agent) job(f func(context.Context)) {
	a.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(a.keepers.ctx, keeperCallTimeout)
		defer cancel()
		f(ctx)
	})
}

// start prepares and starts an executor, not too many at once.
func (a *agent) start(ctx context.Context, e effect) {
	began := time.Now()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		a.startFailed(context.WithoutCancel(ctx), e.ref, fmt.Errorf("too many launches at once: %w", ctx.Err()))
		return
	}
	k := a.keepers.get()
	if k == nil {
		a.startFailed(context.WithoutCancel(ctx), e.ref, keeper.ErrDisconnected)
		return
	}
	req, err := a.prepare(e)
	if err != nil {
		a.startFailed(context.WithoutCancel(ctx), e.ref, err)
		return
	}
	if e.program != "" {
		runProgram(&req, e.program)
	}
	if req.Leased {
		if err := a.contact.renew(ctx, k); err != nil {
			a.startFailed(context.WithoutCancel(ctx), e.ref, err)
			return
		}
	}
	started, err := k.Start(ctx, req)
	if err != nil {
		if ctx.Err() != nil { // it may run for all we know
			_ = k.Kill(context.WithoutCancel(ctx), e.ref.String(), 0)
		}
		a.startFailed(context.WithoutCancel(ctx), e.ref, err)
		return
	}
	a.metrics.launched(time.Since(began))
	_ = a.do(context.WithoutCancel(ctx), func() { a.perform(a.table.started(e.ref, started, time.Now())) })
}

func (a *agent) prepare(e effect) (keeper.StartRequest, error) {
	if e.prepared != nil {
		return *e.prepared, nil
	}
	return a.launcher.prepare(e.launch, a.masters.list())
}

func (a *agent) startFailed(ctx context.Context, ref model.ExecutorRef, err error) {
	a.metrics.launchFailed(outage(err))
	if !outage(err) {
		a.failed(ref)
	}
	_ = a.do(ctx, func() { a.perform(a.table.startFailed(ref, err, outage(err))) })
}

// outage says that a process was not started for a cause of the worker's.
func outage(err error) bool {
	if slices.Contains([]keeper.Reason{
		keeper.ReasonShuttingDown, keeper.ReasonTooMany, keeper.ReasonVersion, keeper.ReasonWrongWorker, keeper.ReasonDuplicateKey,
		keeper.ReasonLeaseOver,
	}, keeper.ReasonOf(err)) {
		return true
	}
	return errors.Is(err, keeper.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func (a *agent) kill(ctx context.Context, e effect) {
	k := a.keepers.get()
	if k == nil {
		return // what it had is lost with it
	}
	err := k.Kill(ctx, e.ref.String(), e.grace)
	if reason := keeper.ReasonOf(err); reason == keeper.ReasonNotRunning || reason == keeper.ReasonUnknownKey {
		return // it has ended meanwhile
	}
	if err != nil && !errors.Is(err, keeper.ErrDisconnected) {
		a.log.Error("kill not carried out", "app", e.ref.App, "executor", e.ref.Executor, "err", err)
	}
}

func (a *agent) forget(ctx context.Context, e effect) {
	k := a.keepers.get()
	if k == nil {
		return // the next attach offers it again
	}
	err := k.Forget(ctx, e.ref.String())
	if errors.Is(err, context.Canceled) || errors.Is(err, keeper.ErrDisconnected) {
		return // the same
	}
	if err != nil && keeper.ReasonOf(err) != keeper.ReasonUnknownKey {
		a.log.Warn("exit not forgotten by the keeper", "app", e.ref.App, "executor", e.ref.Executor, "err", err)
	}
}

// clean hands an application to the cleaner. If that is busy, the leader's next AppEnded, or the
// next start, comes back to it.
func (a *agent) clean(app model.AppID) {
	select {
	case a.cleanup <- app:
	default:
	}
}

// event takes in what the keeper has seen.
func (a *agent) event(ev keeper.Event) {
	ref, err := model.ParseExecutorRef(ev.Entry.Key)
	if err != nil {
		return
	}
	switch {
	case ev.Kind == keeper.EventExited && ev.Entry.Exit != nil:
		a.metrics.ended(*ev.Entry.Exit)
		if failedBy(*ev.Entry.Exit) {
			a.failed(ref)
		}
		a.perform(a.table.exited(ref, ev.Entry.Proc.PID, *ev.Entry.Exit))
	case ev.Kind == keeper.EventStuck:
		a.table.stuck(ref)
	}
}
