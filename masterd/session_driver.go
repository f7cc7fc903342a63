package masterd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// DriverSession serves one driver session on the leader.
func (s sessionService) DriverSession(ctx context.Context, stream rpc.DriverSessionStream) error {
	return s.m.inTerm(ctx, func(ctx context.Context, cancel context.CancelFunc, l *leadership) error {
		up, err := recvWithin(ctx, helloTimeout, stream.Recv)
		if err != nil {
			return fmt.Errorf("driver hello: %w", err)
		}
		if up.Hello == nil {
			return fmt.Errorf("%w: the first message of a driver session must be a hello", model.ErrInvalid)
		}
		ds := &driverSession{
			l: l, stream: stream, hello: *up.Hello, cancel: cancel,
			out:      make(chan model.DriverDown, sessionOutbound),
			confirms: make(chan []model.ExecutorID, sessionReports),
			sent:     make(map[model.ExecutorID]uint64),
		}
		return ds.serve(ctx)
	})
}

// driverSession is the leader's end of one driver session. sent belongs to the
// goroutine of syncLoop: it says up to which change each executor was told.
type driverSession struct {
	l        *leadership
	stream   rpc.DriverSessionStream
	hello    model.DriverHello
	cancel   context.CancelFunc
	out      chan model.DriverDown
	confirms chan []model.ExecutorID
	sent     map[model.ExecutorID]uint64
}

func (s *driverSession) serve(ctx context.Context) error {
	a, ok := s.l.m.fsm.View().App(s.hello.App)
	switch {
	case !ok:
		return fmt.Errorf("%w: application %s", model.ErrNotFound, s.hello.App)
	case !a.Token.Is(s.hello.Token):
		return fmt.Errorf("%w: wrong session token for application %s", model.ErrUnauthenticated, s.hello.App)
	case a.Spec.Kind != model.AppKindDriver:
		return fmt.Errorf("%w: application %s has no driver", model.ErrInvalid, s.hello.App)
	case a.State.Terminal():
		return s.stream.Send(model.DriverDown{Ended: &model.DriverEnded{State: a.State, Reason: a.Reason}})
	}
	watch, unwatch := s.l.m.hub.watchExecutors(s.hello.App)
	defer unwatch()
	unseat := s.l.seatDriver(s.hello.App, s.hello.Addr, s.cancel) //nolint:contextcheck // the pursuit outlives the session, on purpose
	defer unseat()
	s.l.log.Info("driver session open", "app", string(s.hello.App))

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.l.detached(gctx, "reading a driver session", s.recvLoop) })
	g.Go(func() error {
		return guard(s.l.log, "committing a driver's confirmations", func() error { return s.confirmLoop(gctx) })
	})
	g.Go(func() error {
		return s.l.detached(gctx, "comparing a driver's executors", func(ctx context.Context) error { return s.syncLoop(ctx, watch) })
	})
	err := g.Wait()
	if errors.Is(err, errAppOver) {
		err = nil
	}
	s.l.log.Info("driver session closed", "app", string(s.hello.App), "err", err)
	return err
}

func (s *driverSession) recvLoop(ctx context.Context) error {
	for {
		up, err := s.stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case up.Beat != nil:
			s.l.answeredDriver(s.hello.App)
			select {
			case s.out <- model.DriverDown{BeatAck: up.Beat}:
			case <-ctx.Done():
				return ctx.Err()
			}
		case up.Confirm != nil:
			select {
			case s.confirms <- up.Confirm:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return fmt.Errorf("%w: a driver session's message has no known content", model.ErrInvalid)
		}
	}
}

// confirmLoop commits that executors have registered with their driver. A
// rejected confirmation (the executor has ended meanwhile) is no fault.
func (s *driverSession) confirmLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ids := <-s.confirms:
			for more := true; more && len(ids) < maxVerdictsCmd; { // what came meanwhile shares the command
				select {
				case also := <-s.confirms:
					ids = append(ids, also...)
				default:
					more = false
				}
			}
			err := s.confirm(ctx, ids)
			if err != nil && !isRejected(err, model.RejectAppEnded, model.RejectUnknownExecutor, model.RejectUnknownApp) {
				return fmt.Errorf("confirm executors of %s: %w", s.hello.App, err)
			}
		}
	}
}

// confirm commits that executors have registered. Nobody waits for that: the driver
// uses them already. So it goes with what is committed next, and in a storm of
// launches there is a commit for each reportPatience, not for each executor.
func (s *driverSession) confirm(ctx context.Context, ids []model.ExecutorID) error {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	wait, err := s.l.m.node.ProposePatiently(ctx, []*replogv1.Command{confirmExecutorsCommand(s.hello.App, ids)}, reportPatience)
	if err != nil {
		return err
	}
	results, err := wait()
	if err != nil {
		return err
	}
	return results[0].Err()
}

// errAppOver ends a session whose driver has been told that it is over.
var errAppOver = errors.New("the application has ended")

// syncLoop is the only sender: first the whole list, then what changed: on a
// wake-up it looks at the executors that have, once a second at every one. It
// ends with errAppOver.
func (s *driverSession) syncLoop(ctx context.Context, watch *executorWatch) error {
	touched, _ := watch.drain(nil) // before the view: it has all of it
	v := s.l.m.fsm.View()
	list := &model.DriverExecutors{Index: v.Index(), BeatMilli: s.l.m.cfg.WorkerBeat.Milliseconds()}
	v.Executors(s.hello.App, func(e *model.Executor) bool {
		s.sent[e.ID] = e.ChangeIndex
		list.Executors = append(list.Executors, driverExecutor(v, e))
		return true
	})
	if err := s.stream.Send(model.DriverDown{Executors: list}); err != nil {
		return err
	}
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	var all, ticked bool
	for {
		touched, all = watch.drain(touched) // before the view, again
		if done, err := s.sync(touched, all || ticked); err != nil {
			return err
		} else if done {
			return errAppOver
		}
		ticked = false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-s.out:
			if err := s.stream.Send(d); err != nil {
				return err
			}
		case <-watch.poke:
		case <-tick.C:
			ticked = true
		}
	}
}

// everything compares each executor of the application with what the driver was
// told, and returns what it was not.
func (s *driverSession) everything(v *fsm.View) (changes []model.DriverExecutor) {
	unfinished := make(map[model.ExecutorID]struct{})
	v.Executors(s.hello.App, func(e *model.Executor) bool {
		unfinished[e.ID] = struct{}{}
		changes = s.look(v, e, changes)
		return true
	})
	for id := range s.sent {
		if _, ok := unfinished[id]; !ok {
			changes = s.ended(v, id, changes)
		}
	}
	return changes
}

// some is everything for the named executors.
func (s *driverSession) some(v *fsm.View, refs []model.ExecutorRef) (changes []model.DriverExecutor) {
	for _, ref := range refs {
		if e, ok := v.Executor(ref); ok && !e.State.Terminal() {
			changes = s.look(v, e, changes)
		} else if _, told := s.sent[ref.Executor]; told {
			changes = s.ended(v, ref.Executor, changes)
		}
	}
	return changes
}

// look adds an unfinished executor to changes if it has changed since the driver
// was told of it.
func (s *driverSession) look(v *fsm.View, e *model.Executor, changes []model.DriverExecutor) []model.DriverExecutor {
	if at, ok := s.sent[e.ID]; ok && at >= e.ChangeIndex {
		return changes
	}
	s.sent[e.ID] = e.ChangeIndex
	return append(changes, driverExecutor(v, e))
}

// ended adds an executor to changes that the driver takes for unfinished.
func (s *driverSession) ended(v *fsm.View, id model.ExecutorID, changes []model.DriverExecutor) []model.DriverExecutor {
	delete(s.sent, id)
	return append(changes, endedExecutor(v, model.ExecutorRef{App: s.hello.App, Executor: id}))
}

// sync sends every change that the driver has not been told, of the touched
// executors or of all; done is true once the application has ended and the driver
// knows it.
func (s *driverSession) sync(touched []model.ExecutorRef, all bool) (done bool, err error) {
	v := s.l.m.fsm.View()
	var changes []model.DriverExecutor
	if all {
		changes = s.everything(v)
	} else {
		changes = s.some(v, touched)
	}
	for i := range changes {
		if err := s.stream.Send(model.DriverDown{Change: &changes[i]}); err != nil {
			return false, err
		}
	}
	a, ok := v.App(s.hello.App)
	if ok && !a.State.Terminal() {
		return false, nil
	}
	ended := model.DriverEnded{State: model.AppFailed, Reason: "the cluster has forgotten this application"}
	if ok {
		ended = model.DriverEnded{State: a.State, Reason: a.Reason}
	}
	return true, s.stream.Send(model.DriverDown{Ended: &ended})
}

func driverExecutor(v *fsm.View, e *model.Executor) model.DriverExecutor {
	d := model.DriverExecutor{
		ID: e.ID, Worker: e.Worker, Cores: e.Cores, MemoryMiB: e.MemoryMiB, Resources: e.Resources,
		State: e.State, Terminal: e.State.Terminal(), Cause: e.Cause, ExitCode: e.ExitCode, Signal: e.Signal, Reason: e.Reason,
		Secret: e.Secret, Profile: e.Profile, Index: e.ChangeIndex,
	}
	if w, ok := v.Worker(e.Worker); ok {
		d.Host = w.Offer.Hostname
	}
	return d
}

// endedExecutor describes an executor that is no longer among the unfinished.
func endedExecutor(v *fsm.View, ref model.ExecutorRef) model.DriverExecutor {
	if e, ok := v.Executor(ref); ok {
		return driverExecutor(v, e)
	}
	return model.DriverExecutor{
		ID: ref.Executor, State: model.ExecutorLost, Terminal: true, Cause: model.CauseInfra, ExitCode: -1,
		Reason: "no longer known to the cluster", Index: v.Index(),
	}
}
