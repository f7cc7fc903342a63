package masterd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// runDrains ends what drained workers need not run any more: copies of a command
// that are replaced, and after the deadline all that is left (ADR 0036). Which
// worker is drained, and which executor leaves, is in the state; so a new leader
// goes on where the old one was. While no drained worker runs anything it waits for
// a change.
func (l *leadership) runDrains(ctx context.Context) error {
	pace, unpace := l.m.hub.newPace()
	defer unpace()
	restless := true
	for pace.next(ctx, restless) {
		v := l.m.fsm.View()
		restless = drainsRunning(v)
		cmds := l.drainOrders(v, l.m.node.ClusterTick())
		if len(cmds) == 0 {
			continue
		}
		pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
		_, err := l.m.node.ProposeAll(pctx, cmds)
		cancel()
		if err != nil && ctx.Err() == nil && !errors.Is(err, model.ErrOutcomeUnknown) && !errors.Is(err, model.ErrUnavailable) {
			return fmt.Errorf("end executors on drained workers: %w", err)
		}
	}
	return nil
}

// drainsRunning reports whether a worker that is out of service runs anything.
func drainsRunning(v *fsm.View) bool {
	running := false
	v.Workers(func(w *model.Worker) bool {
		if w.Drain != nil && !w.State.Gone() {
			v.WorkerExecutors(w.ID, func(*model.Executor) bool {
				running = true
				return false
			})
		}
		return !running
	})
	return running
}

// drainOrders lists what is to be ended now.
func (l *leadership) drainOrders(v *fsm.View, tick int64) []*replogv1.Command {
	var cmds []*replogv1.Command
	r := replacements{v: v, spare: make(map[profileOf]int)}
	v.Workers(func(w *model.Worker) bool {
		if w.Drain == nil || w.State.Gone() {
			return true
		}
		due := w.Drain.Due(tick)
		var stop []model.ExecutorRef
		v.WorkerExecutors(w.ID, func(e *model.Executor) bool {
			l.shield(e.App, "looking whether it is replaced", func() {
				if e.State.CanBecome(model.ExecutorKilling) && (due || r.replaced(e)) {
					stop = append(stop, e.Ref())
				}
			})
			return true
		})
		reason := "it is replaced"
		if due {
			reason = fmt.Sprintf("the deadline of %s has passed", model.FormatMilli(w.Drain.DeadlineTick-w.Drain.SinceTick))
		}
		for part := range slices.Chunk(stop, maxVerdictsCmd) {
			cmds = append(cmds, stopDrainedCommand(w, part, reason))
		}
		return true
	})
	return cmds
}

// profileOf names the executors of one size of one application.
type profileOf struct {
	app     model.AppID
	profile int
}

// replacements counts, for one look at all drained workers, how many executors
// that leave may go because as many as are wanted run without them.
type replacements struct {
	v     *fsm.View
	spare map[profileOf]int
}

// replaced reports whether a copy of a command that leaves may go now. An
// executor with a driver goes when that finds it idle.
func (r replacements) replaced(e *model.Executor) bool {
	if e.State != model.ExecutorDecommissioning {
		return false
	}
	a, ok := r.v.App(e.App)
	if !ok || a.Spec.Kind != model.AppKindCommand {
		return false
	}
	key := profileOf{e.App, e.Profile}
	spare, known := r.spare[key]
	if !known {
		spare = r.count(a, e.Profile)
	}
	r.spare[key] = spare - 1
	return spare > 0
}

// count is how many executors more than wanted there are that run or leave.
func (r replacements) count(a *model.App, profile int) int {
	want := model.Wanted(a, profile)
	if limit, size := model.CoresLimit(a, r.v.Settings()), a.Profiles[profile].Cores; limit > 0 && size > 0 {
		want = min(want, limit/size)
	}
	there := 0
	r.v.Executors(a.ID, func(e *model.Executor) bool {
		if e.Profile == profile && (e.State == model.ExecutorRunning || e.State == model.ExecutorDecommissioning) {
			there++
		}
		return true
	})
	return there - want
}

func stopDrainedCommand(w *model.Worker, refs []model.ExecutorRef, reason string) *replogv1.Command {
	p := &replogv1.StopDrained{Worker: string(w.ID), Drain: w.Drain.Index, Reason: reason}
	for _, r := range refs {
		p.Executors = append(p.Executors, &replogv1.ExecutorName{App: string(r.App), Executor: int32(r.Executor)})
	}
	return &replogv1.Command{Principal: "master", Kind: &replogv1.Command_StopDrained{StopDrained: p}}
}

// DrainWorkers takes workers out of service.
func (s clusterService) DrainWorkers(ctx context.Context, call rpc.CallInfo, req rpc.DrainRequest) (rpc.DrainReply, error) {
	ids, err := s.chosenWorkers(req.Workers)
	if err != nil {
		return rpc.DrainReply{}, err
	}
	if _, err := s.m.commit(ctx, call, drainCommand(ids, req.Terms)); err != nil {
		return rpc.DrainReply{}, err
	}
	return rpc.DrainReply{Workers: ids}, nil
}

// UndrainWorkers puts workers into service again.
func (s clusterService) UndrainWorkers(ctx context.Context, call rpc.CallInfo, choice rpc.WorkerChoice) (rpc.DrainReply, error) {
	ids, err := s.chosenWorkers(choice)
	if err != nil {
		return rpc.DrainReply{}, err
	}
	cmd := &replogv1.Command{Kind: &replogv1.Command_UndrainWorkers{UndrainWorkers: &replogv1.UndrainWorkers{Workers: workerNames(ids)}}}
	if _, err := s.m.commit(ctx, call, cmd); err != nil {
		return rpc.DrainReply{}, err
	}
	return rpc.DrainReply{Workers: ids}, nil
}

func drainCommand(ids []model.WorkerID, t model.DrainTerms) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_DrainWorkers{DrainWorkers: &replogv1.DrainWorkers{
		Workers: workerNames(ids), Reason: model.TrimReason(t.Reason), DeadlineMilli: t.DeadlineMilli, IdleOnly: t.IdleOnly,
	}}}
}

func workerNames(ids []model.WorkerID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// chosenWorkers resolves ids, which may be cut short, and hosts to the workers
// that they name, sorted. Of the workers of a host those that are gone are left
// out.
func (s clusterService) chosenWorkers(choice rpc.WorkerChoice) ([]model.WorkerID, error) {
	if !s.m.takesCommands() {
		return nil, s.m.notLeader()
	}
	var errs []error
	var ids []model.WorkerID
	v := s.m.fsm.View()
	for _, name := range choice.IDs {
		id, err := findWorker(v, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids = append(ids, id)
	}
	for _, host := range choice.Hosts {
		on := workersOn(v, host)
		if len(on) == 0 {
			errs = append(errs, fmt.Errorf("%w: no worker on host %q", model.ErrNotFound, host))
		}
		ids = append(ids, on...)
	}
	if len(errs) == 0 && len(ids) == 0 {
		errs = append(errs, fmt.Errorf("%w: no worker is named: give an id or a host", model.ErrInvalid))
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(errs...)
}

// findWorker resolves a whole id or a unique prefix.
func findWorker(v *fsm.View, name string) (model.WorkerID, error) {
	if w, ok := v.Worker(model.WorkerID(name)); ok {
		return w.ID, nil
	}
	var found []model.WorkerID
	v.Workers(func(w *model.Worker) bool {
		if name != "" && strings.HasPrefix(string(w.ID), name) {
			found = append(found, w.ID)
		}
		return true
	})
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: worker %q", model.ErrNotFound, name)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: %q fits %d workers, among them %s and %s: give more of the id", model.ErrInvalid, name, len(found), found[0], found[1])
}

func workersOn(v *fsm.View, host string) []model.WorkerID {
	var out []model.WorkerID
	v.Workers(func(w *model.Worker) bool {
		if !w.State.Gone() && strings.EqualFold(w.Offer.Hostname, host) {
			out = append(out, w.ID)
		}
		return true
	})
	return out
}

// drainView says why and how a worker is out of service, as far as this replica's
// clock has come; nil = it is in service.
func drainView(v *fsm.View, w *model.Worker) *model.DrainView {
	d := w.Drain
	if d == nil {
		return nil
	}
	out := &model.DrainView{
		Reason: d.Reason, By: d.Principal, Since: model.RFC3339(d.SinceWall), DeadlineLeft: -1, IdleOnly: d.IdleOnly,
	}
	if d.DeadlineTick > 0 {
		out.DeadlineLeft = max(0, d.DeadlineTick-v.Tick())
	}
	return out
}

// drain takes the worker out of service on its own word.
func (s *workerSession) drain(ctx context.Context, t model.DrainTerms) error {
	t.Reason = cmp.Or(t.Reason, "on its own word")
	cmd := drainCommand([]model.WorkerID{s.hello.Worker}, t)
	cmd.Principal = string(s.hello.Worker)
	err := s.l.m.propose(ctx, cmd)
	var refused *model.RejectedError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("commit the drain of worker %s: %w", s.hello.Worker, err)
	}
	ok := &model.DrainOK{}
	if refused != nil {
		ok.Refused = refused.Error()
	}
	return s.push(ctx, model.WorkerDown{DrainOK: ok})
}
