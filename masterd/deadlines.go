package masterd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// runDeadlines gives every state that must pass a way out: executors that are
// not acknowledged, do not come up, or do not end, and applications that run
// longer than they may. It looks once a second at those which are in such a
// state, not at all of them.
func (l *leadership) runDeadlines(ctx context.Context) error {
	touched, unwatch := l.m.hub.watchTouched()
	defer unwatch()
	d := &deadlines{
		l:        l,
		since:    l.m.node.ClusterTick(),
		passing:  make(map[model.ExecutorRef]struct{}),
		settling: make(map[model.AppID]struct{}),
	}
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		d.take(touched)
		if err := d.check(ctx); err != nil {
			if ctx.Err() != nil || errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrUnavailable) {
				continue
			}
			return err
		}
	}
}

// deadlines is owned by the goroutine of runDeadlines.
type deadlines struct {
	l *leadership
	// since is when this leader armed its clocks: a state that is older counts
	// from here, so a failover never makes a deadline fall due at once.
	since    int64
	passing  map[model.ExecutorRef]struct{}
	settling map[model.AppID]struct{}
}

func (d *deadlines) take(t *touchedSet) {
	refs, apps, all := t.drain()
	v := d.l.m.fsm.View()
	if all {
		v.AllExecutors(func(e *model.Executor) bool {
			refs[e.Ref()] = struct{}{}
			return true
		})
		v.ActiveApps(func(a *model.App) bool {
			apps[a.ID] = struct{}{}
			return true
		})
	}
	for ref := range refs {
		if e, ok := v.Executor(ref); ok && passing(e) {
			d.passing[ref] = struct{}{}
		}
		apps[ref.App] = struct{}{}
	}
	for id := range apps {
		if a, ok := v.App(id); ok && settling(a) {
			d.settling[id] = struct{}{}
		}
	}
}

// passing reports whether an executor is in a state with a deadline.
func passing(e *model.Executor) bool {
	switch e.State {
	case model.ExecutorPlaced, model.ExecutorLaunching:
		return true
	case model.ExecutorRunning, model.ExecutorKilling, model.ExecutorStuck,
		model.ExecutorExited, model.ExecutorFailed, model.ExecutorKilled, model.ExecutorLost:
	}
	return false
}

// settling reports whether the cluster clock alone may change something about
// an application.
func settling(a *model.App) bool {
	return !a.State.Terminal() && (a.Spec.MaxRuntimeMilli > 0 || len(a.Failures) > 0 || len(a.Excluded) > 0)
}

func (d *deadlines) check(ctx context.Context) error {
	v := d.l.m.fsm.View()
	now := d.l.m.node.ClusterTick()
	var cmds []*replogv1.Command
	var expired []expiry
	for ref := range d.passing {
		e, ok := v.Executor(ref)
		if !ok || !passing(e) {
			delete(d.passing, ref)
			continue
		}
		age := now - max(e.StateTick, d.since)
		switch {
		case e.State == model.ExecutorPlaced && age > model.PlacedLostMilli:
			expired = append(expired, expiry{
				ref: ref, change: e.ChangeIndex,
				reason: fmt.Sprintf("worker %s did not acknowledge the launch within %d s", e.Worker, model.PlacedLostMilli/1000),
			})
		case e.State == model.ExecutorLaunching && age > model.LaunchingMilli:
			cmds = append(cmds, killExecutorsCommand(ref.App, []model.ExecutorID{ref.Executor},
				fmt.Sprintf("did not come up within %d s", model.LaunchingMilli/1000)))
		}
	}
	if len(expired) > 0 {
		cmds = append(cmds, expireExecutorsCommand(expired))
	}
	if due := d.due(v, now); len(due) > 0 {
		cmds = append(cmds, settleAppsCommand(due))
	}
	if len(cmds) == 0 {
		return nil
	}
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err := d.l.m.node.ProposeAll(pctx, cmds)
	return err
}

// due names the applications that the clock has something to say about now, so
// that nothing is written while nothing changes.
func (d *deadlines) due(v *fsm.View, now int64) []string {
	var out []string
	for id := range d.settling {
		a, ok := v.App(id)
		if !ok || !settling(a) {
			delete(d.settling, id)
			continue
		}
		if settleDue(v, a, now) {
			out = append(out, string(id))
		}
	}
	return out
}

// settleDue reports whether SettleApps would change the application at this
// tick.
func settleDue(v *fsm.View, a *model.App, now int64) bool {
	if a.Spec.MaxRuntimeMilli > 0 && now-a.SubmittedTick > a.Spec.MaxRuntimeMilli {
		return true
	}
	for _, e := range a.Excluded {
		if e.UntilTick <= now {
			return true
		}
	}
	if len(a.Failures) == 0 {
		return false
	}
	if now-a.Failures[0].Tick > model.FailureWindowMilli {
		return true
	}
	stable := false
	v.Executors(a.ID, func(e *model.Executor) bool {
		stable = e.State == model.ExecutorRunning && now-e.RunningTick >= model.StableRunMilli
		return !stable
	})
	return stable
}
