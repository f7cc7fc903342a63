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

// runScheduler plans whenever something changed and at least once a second,
// and commits what it planned. A pass that places nothing writes nothing.
func (l *leadership) runScheduler(ctx context.Context) error {
	wake, unwatch := l.m.hub.watchAny()
	defer unwatch()
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		next, err := l.pass(ctx)
		if err != nil {
			return err
		}
		flag := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-l.schedule:
		case <-flag.C:
		case <-tick.C:
		}
		flag.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pass makes one plan and proposes it. It returns how long until a flag of the
// view changes by itself, at most a tick. Not knowing what became of a proposal
// is no fault: the next pass reads the view again.
func (l *leadership) pass(ctx context.Context) (time.Duration, error) {
	now := l.m.node.ClusterTick()
	view := l.m.fsm.View().At(now)
	began := time.Now()
	plan, err := l.plan(view, scheduler.Options{
		MaxPlacements: maxPlacementsPass,
		WorkerBlocked: l.workerBlocked,
	})
	l.m.metrics.activity.Planned(time.Since(began))
	if err != nil {
		return 0, err
	}
	next := loopTick
	if at := view.NextWake(); at > now {
		next = min(next, time.Duration(at-now)*time.Millisecond)
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
