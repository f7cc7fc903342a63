package masterd

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// maxPassPause bounds the pause after a pass.
const maxPassPause = 50 * time.Millisecond

// planner is the scheduler loop of one term. Its goroutine owns it.
type planner struct {
	l       *leadership
	index   *scheduler.Index
	changes *changedRecords
	// wakeAt is when a flag of the view changes by itself, in ms of cluster
	// clock; 0 = not known to.
	wakeAt int64
	read   time.Time     // when everything was last read
	took   time.Duration // to plan, in the last pass
}

// runScheduler plans whenever something changed and at least once a second,
// and commits what it planned. A pass that places nothing writes nothing. A
// pass looks at what changed since the one before; once a second, and when a
// flag changes by time, at everything. After a pass the loop rests for as long
// as the planning took: what changes meanwhile is planned together, and the
// scheduler leaves the leader half a core at least.
func (l *leadership) runScheduler(ctx context.Context) error {
	changes, unwatch := l.m.hub.watchRecords()
	defer unwatch()
	p := &planner{l: l, index: scheduler.NewIndex(), changes: changes}
	for {
		next, err := p.pass(ctx)
		if err != nil {
			return err
		}
		rest := time.NewTimer(min(p.took, maxPassPause))
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		rest.Stop()
		flag := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-changes.poke:
		case <-l.schedule:
		case <-flag.C:
		}
		flag.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// changed says what the next plan has to look at again, given what has changed
// before the view was taken.
func (p *planner) changed(view *fsm.Scheduling, now int64, what scheduler.Changes) scheduler.Changes {
	if what.All || time.Since(p.read) >= loopTick || p.wakeAt > 0 && p.wakeAt <= now {
		p.read, p.wakeAt = time.Now(), view.NextWake()
		return scheduler.Changes{All: true}
	}
	for _, id := range what.Apps {
		if at := view.NextWakeOf(id); at > 0 && (p.wakeAt == 0 || at < p.wakeAt) {
			p.wakeAt = at
		}
	}
	return what
}

// pass makes one plan and proposes it. It returns how long until the next one
// if nothing changes, at most a tick. Not knowing what became of a proposal is
// no fault: the next pass reads the view again.
func (p *planner) pass(ctx context.Context) (time.Duration, error) {
	l := p.l
	what := p.changes.drain() // before the view: it has all of it
	now := l.m.node.ClusterTick()
	view := l.m.fsm.View().At(now)
	began := time.Now()
	plan, err := p.plan(view, p.changed(view, now, what))
	p.took = time.Since(began)
	l.m.metrics.activity.Planned(p.took)
	if err != nil {
		return 0, err
	}
	next := loopTick
	if p.wakeAt > now {
		next = min(next, time.Duration(p.wakeAt-now)*time.Millisecond)
	}
	if len(plan) == 0 {
		return next, nil
	}
	for i := range plan {
		plan[i].Secret = randomHex(16)
	}
	cmds := placements(plan)
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	results, err := l.m.node.ProposeAll(pctx, cmds)
	if err != nil {
		if errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrUnavailable) || ctx.Err() != nil {
			l.log.Debug("placements not confirmed", "err", err)
			return loopTick, nil
		}
		if errors.Is(err, model.ErrTooLarge) || errors.Is(err, model.ErrInvalid) {
			// One application's; the term goes on for all others.
			l.log.Error("placements cannot be committed", "err", err)
			return loopTick, nil
		}
		return 0, err
	}
	accepted, refused := 0, 0
	for _, r := range results {
		for _, p := range r.Placements {
			if p.Rejection == model.RejectNone {
				accepted++
			}
			if p.Rejection != model.RejectNone {
				refused++
				l.log.Debug("placement refused", "reason", string(p.Rejection), "text", p.Text)
			}
		}
	}
	l.m.metrics.activity.Placed(accepted, refused)
	if refused > 0 {
		return loopTick, nil
	}
	return 0, nil
}

// placements makes commands of a plan, none with too many or too large ones:
// the log refuses a command that fills more than an entry.
func placements(plan []model.Placement) []*replogv1.Command {
	var cmds []*replogv1.Command
	for len(plan) > 0 {
		n, size := 0, 0
		for n < min(len(plan), maxPlacementsCmd) {
			size += proto.Size(fsm.PlacementToProto(plan[n]))
			if n > 0 && size > maxPlacementsSize {
				break
			}
			n++
		}
		cmds = append(cmds, placeExecutorsCommand(plan[:n]))
		plan = plan[n:]
	}
	return cmds
}
