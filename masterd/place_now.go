package masterd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// registerPlaced commits a registration together with the first placements of
// its application: one commit instead of two in a row. It plans from the state
// that the registration will leave if nothing comes between, so it does that only
// while nothing is on its way to the log; otherwise, and when there is nothing to
// place, done is false, nothing was proposed, and the registration goes its
// usual way. The placements hold for that very registration or not at all, and
// are judged again when they are applied, as any others. ADR 0038.
func (l *leadership) registerPlaced(ctx context.Context, cmd *replogv1.Command) (res fsm.Result, done bool, err error) {
	p := l.planner.Load()
	if p == nil || !l.m.node.Quiet() {
		return fsm.Result{}, false, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	default:
		return fsm.Result{}, false, nil
	}
	l.m.node.Stamp(cmd) // the id is made of the wall clock, too
	guess, at, plan := p.foresee(cmd)
	if len(plan) == 0 {
		return fsm.Result{}, false, nil
	}
	results, done, err := l.m.node.ProposeAlone(ctx, append([]*replogv1.Command{cmd}, placedWith(cmd, guess, plan)...), at)
	if !done || err != nil || results[0].App != guess {
		p.forget(guess)
	}
	if !done || err != nil {
		return fsm.Result{}, done, err
	}
	if p.count(results) > 0 {
		p.changes.wake()
	}
	return results[0], true, nil
}

// foresee plans from the state that a registration will leave, if that gives its
// application anything. guess is the id that it will have, at the entry that all
// this was made after.
func (p *planner) foresee(cmd *replogv1.Command) (guess model.AppID, at uint64, plan []model.Placement) {
	l := p.l
	what := p.changes.drain()
	foreseen, after := l.m.fsm.Preview([]*replogv1.Command{cmd})
	id := foreseen[0].App
	if foreseen[0].Rejection != model.RejectNone || foreseen[0].Repeated || id == "" {
		p.changes.put(what)
		return "", 0, nil
	}
	what.Apps = append(what.Apps, id)
	now := l.m.node.ClusterTick()
	began := time.Now()
	view := after.At(now)
	out, err := p.plan(view, p.changed(view, now, what))
	plan = out.Executors
	l.m.metrics.activity.Planned(time.Since(began))
	if err != nil || len(out.Drivers) > 0 || !slices.ContainsFunc(plan, func(x model.Placement) bool { return x.App == id }) {
		p.forget(id)
		return "", 0, nil
	}
	for i := range plan {
		plan[i].Secret = model.Secret(randomHex(16))
	}
	return id, after.Index() - 1, plan
}

// forget drops an application that was planned for and may not be registered,
// before another one with its number is looked at. What was planned for others is
// planned again.
func (p *planner) forget(guess model.AppID) {
	p.index.Forget(guess)
	p.readAt = 0
	p.changes.wake()
}

// placedWith makes commands of a plan that was made together with a
// registration. Those for its application name the request.
func placedWith(cmd *replogv1.Command, id model.AppID, plan []model.Placement) []*replogv1.Command {
	var own, others []model.Placement
	for _, x := range plan {
		if x.App == id {
			own = append(own, x)
		} else {
			others = append(others, x)
		}
	}
	cmds := placements(own)
	for _, c := range cmds {
		c.GetPlaceExecutors().RegisteredBy = cmd.GetRequestId()
	}
	return append(placements(others), cmds...)
}

// count counts what became of placements, and says how many were refused.
func (p *planner) count(results []fsm.Result) (refused int) {
	accepted := 0
	for _, r := range results {
		for _, v := range r.Placements {
			if v.Rejection == model.RejectNone {
				accepted++
				continue
			}
			refused++
			p.l.log.Debug("placement refused", "reason", string(v.Rejection), "text", v.Text)
		}
	}
	p.l.m.metrics.activity.Placed(accepted, refused)
	return refused
}

// register commits a registration, with its first placements if that can be.
func (m *Master) register(ctx context.Context, cmd *replogv1.Command) (fsm.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	var res fsm.Result
	var done bool
	var err error
	if l := m.leading.Load(); l != nil {
		res, done, err = l.registerPlaced(ctx, cmd)
	}
	if !done && err == nil {
		res, err = m.node.Propose(ctx, cmd)
	}
	if errors.Is(err, model.ErrNotLeader) {
		return fsm.Result{}, m.notLeader()
	}
	return res, err
}
