package masterd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// runDeadlines gives every state that must pass a way out: executors that are
// not acknowledged, do not come up, or do not end, and applications and drivers
// that run longer than they may. Of the executors it looks once a second at those which
// are in such a state, not at all of them; while there is none, and no application
// or driver can fall due, it waits for a change.
func (l *leadership) runDeadlines(ctx context.Context) error {
	touched, unwatch := l.m.hub.watchTouched()
	defer unwatch()
	d := &deadlines{
		l:       l,
		since:   l.m.node.ClusterTick(),
		passing: make(map[model.ExecutorRef]int64),
	}
	pace, unpace := l.m.hub.newPace()
	defer unpace()
	restless := true
	for pace.next(ctx, restless) {
		d.take(touched)
		v := l.m.fsm.View()
		err := d.check(ctx, v)
		if err != nil && ctx.Err() == nil && !errors.Is(err, model.ErrOutcomeUnknown) && !errors.Is(err, model.ErrUnavailable) {
			return err
		}
		restless = err != nil || len(d.passing) > 0 || v.MayFallDue()
	}
	return nil
}

// deadlines is owned by the goroutine of runDeadlines.
type deadlines struct {
	l *leadership
	// since is when this leader armed its clocks: a state that is older counts
	// from here, so a failover never makes a deadline fall due at once.
	since int64
	// passing says until when nothing can be due for an executor that is in a
	// state with a deadline, in ms of cluster clock.
	passing map[model.ExecutorRef]int64
}

func (d *deadlines) take(t *touchedSet) {
	refs, all := t.drain()
	v := d.l.m.fsm.View()
	if all {
		v.AllExecutors(func(e *model.Executor) bool {
			refs[e.Ref()] = struct{}{}
			return true
		})
	}
	for ref := range refs {
		if e, ok := v.Executor(ref); ok && passing(e) {
			d.passing[ref] = max(e.StateTick, d.since) + min(model.PlacedLostMilli, model.LaunchingMilli)
		} else {
			delete(d.passing, ref)
		}
	}
}

// passing reports whether an executor is in a state with a deadline.
func passing(e *model.Executor) bool {
	switch e.State {
	case model.ExecutorPlaced, model.ExecutorLaunching:
		return true
	case model.ExecutorRunning, model.ExecutorDecommissioning, model.ExecutorKilling, model.ExecutorStuck,
		model.ExecutorExited, model.ExecutorFailed, model.ExecutorKilled, model.ExecutorLost:
	}
	return false
}

// waits reports whether nothing can be held against the executor now. Its
// worker is away for a planned restart and cannot report. Or it is of a
// singleton application and its worker has no session: a replacement could run
// beside it, so what is decided about the worker decides.
func (d *deadlines) waits(v *fsm.View, e *model.Executor) bool {
	w, ok := v.Worker(e.Worker)
	if ok && w.State == model.WorkerRestarting {
		return true
	}
	spec, ok := launchSpec(v, e)
	return ok && spec.Disconnect.Singleton() && d.l.withoutSession(e.Worker)
}

func (d *deadlines) check(ctx context.Context, v *fsm.View) error {
	now := d.l.m.node.ClusterTick()
	var cmds []*replogv1.Command
	var expired []expiry
	for ref, until := range d.passing {
		if now <= until {
			continue
		}
		d.l.shield(ref.App, "looking at its deadlines", func() {
			e, ok := v.Executor(ref)
			if !ok || !passing(e) {
				delete(d.passing, ref)
				return
			}
			if d.waits(v, e) {
				return
			}
			age := now - max(e.StateTick, d.since)
			switch {
			case e.State == model.ExecutorPlaced && age > model.PlacedLostMilli:
				expired = append(expired, expiry{
					ref: ref, change: e.ChangeIndex,
					reason: fmt.Sprintf("worker %s did not acknowledge the launch within %d s", e.Worker, model.PlacedLostMilli/1000),
				})
			case e.State == model.ExecutorLaunching && age > model.LaunchingMilli:
				cmds = append(cmds, lateExecutorCommand(ref, fmt.Sprintf("did not come up within %d s", model.LaunchingMilli/1000)))
			}
		})
	}
	for part := range slices.Chunk(expired, maxVerdictsCmd) {
		cmds = append(cmds, expireExecutorsCommand(part))
	}
	for part := range slices.Chunk(v.Due(now), maxVerdictsCmd) {
		cmds = append(cmds, settleAppsCommand(part))
	}
	for part := range slices.Chunk(v.OvertimeDrivers(now), maxVerdictsCmd) {
		cmds = append(cmds, expireDriversCommand(part))
	}
	if len(cmds) == 0 {
		return nil
	}
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err := d.l.m.node.ProposeAll(pctx, cmds)
	return err
}
