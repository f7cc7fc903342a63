package masterd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// WorkerSession serves one worker session on the leader.
func (s sessionService) WorkerSession(ctx context.Context, stream rpc.WorkerSessionStream) error {
	return s.m.inTerm(ctx, func(ctx context.Context, cancel context.CancelFunc, l *leadership) error {
		hello, err := recvWithin(ctx, helloTimeout, stream.Recv)
		if err != nil {
			return fmt.Errorf("worker hello: %w", err)
		}
		if hello.Hello == nil {
			return fmt.Errorf("%w: the first message of a worker session must be a hello", model.ErrInvalid)
		}
		ws := &workerSession{
			l: l, stream: stream, hello: *hello.Hello, cancel: cancel, reported: hello.Hello.ReportSeq,
			out:      make(chan model.WorkerDown, sessionOutbound),
			reports:  make(chan model.WorkerReport, sessionReports),
			launched: make(map[model.ExecutorRef]time.Time),
			killed:   make(map[model.ExecutorRef]time.Time),
			apps:     make(map[model.AppID]struct{}),
			open:     make(map[model.ExecutorRef]struct{}),
			here:     make(map[model.AppID]int),
		}
		return ws.serve(ctx)
	})
}

// workerSession is the leader's end of one session. Orders are level-triggered:
// the session compares what the view says of this worker with what it has sent.
// launched, killed, apps, open, here and unsettled belong to the goroutine of
// syncLoop.
type workerSession struct {
	l       *leadership
	stream  rpc.WorkerSessionStream
	hello   model.WorkerHello
	cancel  context.CancelFunc
	out     chan model.WorkerDown
	reports chan model.WorkerReport
	sending sync.Mutex // for stream.Send, once it is welcomed
	// reported is the sequence of the last report received, or of the last one
	// before this session. It belongs to recvLoop.
	reported uint64
	// orders is held from reading the view until the orders made from it are
	// in out: the worker ignores an order from an older view than it has seen.
	orders sync.Mutex

	launched map[model.ExecutorRef]time.Time
	killed   map[model.ExecutorRef]time.Time
	apps     map[model.AppID]struct{} // whose end it is to be told
	// open are the unfinished executors of this worker as last looked at, here
	// counts them by application.
	open map[model.ExecutorRef]struct{}
	here map[model.AppID]int
	// unsettled: an order may have to be repeated, or an application may end
	// that has nothing here any more.
	unsettled bool
}

func (s *workerSession) serve(ctx context.Context) error {
	if err := s.admit(); err != nil {
		return err
	}
	if rehello, err := s.register(ctx); err != nil {
		return err
	} else if rehello != "" {
		return s.stream.Send(model.WorkerDown{Rehello: &model.Rehello{Fence: s.fence(s.l.m.fsm.View()), Reason: rehello}})
	}
	watch, unwatch := s.l.m.hub.watchWorker(s.hello.Worker)
	defer unwatch()
	unseat := s.l.seatWorker(s.hello.Worker, s.cancel) //nolint:contextcheck // the pursuit outlives the session, on purpose
	defer unseat()
	s.l.log.Info("worker session open", "worker", string(s.hello.Worker), "incarnation", s.hello.Incarnation, "inventory", len(s.hello.Inventory))

	if err := s.stream.Send(model.WorkerDown{Welcome: s.welcome()}); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.l.detached(gctx, "reading a worker session", s.recvLoop) })
	g.Go(func() error {
		return guard(s.l.log, "committing a worker's reports", func() error { return s.reportLoop(gctx) })
	})
	g.Go(func() error {
		return guard(s.l.log, "comparing a worker's executors", func() error { return s.syncLoop(gctx, watch) })
	})
	g.Go(func() error { return s.l.detached(gctx, "writing a worker session", s.sendLoop) })
	err := g.Wait()
	s.l.log.Info("worker session closed", "worker", string(s.hello.Worker), "err", err)
	return err
}

// admit refuses a worker that has obeyed someone newer than this leader, or
// that belongs to another cluster; and a Hello that was long on its way: what
// its inventory lacks may have been launched on a later session.
func (s *workerSession) admit() error {
	own := s.l.m.fsm.View().Cluster()
	if err := own.Accepts(s.hello.Cluster); err != nil {
		return fmt.Errorf("worker %s with %d processes belongs to cluster %s and this master to cluster %s: if that one is gone for good, `hearth worker rejoin` hands the worker and the fate of its processes over to this one: %w",
			s.hello.Worker, len(s.hello.Inventory), s.hello.Cluster, own, err)
	}
	if s.hello.Cluster == own && s.hello.HighestTerm > s.l.term {
		return fmt.Errorf("%w: worker %s has obeyed term %d, this master leads term %d", model.ErrNotLeader, s.hello.Worker, s.hello.HighestTerm, s.l.term)
	}
	w, known := s.l.m.fsm.View().Worker(s.hello.Worker)
	if known && w.Incarnation == s.hello.Incarnation && w.ReportSeq > s.hello.ReportSeq {
		return fmt.Errorf("%w: this Hello of worker %s is older than report %d, which came after it", model.ErrUnavailable, w.ID, w.ReportSeq)
	}
	return nil
}

// register commits the worker's Hello. rehello is not empty if the worker must
// come again under a new incarnation.
func (s *workerSession) register(ctx context.Context) (rehello string, err error) {
	cmd := registerWorkerCommand(s.hello)
	cmd.GetRegisterWorker().Certificate = rpc.CertificateOf(ctx)
	err = s.l.m.propose(ctx, cmd)
	if isRejected(err, model.RejectIncarnation) {
		return fmt.Sprintf("declared dead: incarnation %d is over", s.hello.Incarnation), nil
	}
	if err != nil {
		return "", fmt.Errorf("register worker %s: %w", s.hello.Worker, err)
	}
	for _, r := range s.hello.Inventory {
		s.apps[r.Ref.App] = struct{}{}
	}
	for _, a := range s.hello.Apps {
		s.apps[a] = struct{}{}
	}
	return "", nil
}

func (s *workerSession) fence(v *fsm.View) model.Fence {
	return model.Fence{
		Cluster:     v.Cluster(),
		Term:        s.l.term,
		Incarnation: s.hello.Incarnation,
		ViewIndex:   v.Index(),
	}
}

func (s *workerSession) welcome() *model.WorkerWelcome {
	return &model.WorkerWelcome{
		Fence:      s.fence(s.l.m.fsm.View()),
		Leader:     s.l.m.ID(),
		Masters:    s.l.m.masterAddrs(),
		SerfSeeds:  s.l.m.serfAddrs(),
		BeatMilli:  s.l.m.cfg.WorkerBeat.Milliseconds(),
		DeathMilli: s.l.m.cfg.WorkerTimeout.Milliseconds(),
	}
}

// recvLoop reads until the stream ends.
func (s *workerSession) recvLoop(ctx context.Context) error {
	for {
		up, err := s.stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case up.Beat != nil:
			next := s.l.answeredWorker(s.hello.Worker, up.Beat.Number)
			// At once, and from here: most of what an idle leader does is this.
			err = s.send(model.WorkerDown{BeatAck: &model.Beat{Number: up.Beat.Number, NextMicro: next.Microseconds()}})
		case up.Report != nil:
			err = s.takeReport(ctx, *up.Report)
		case up.Leave != nil:
			err = s.leave(ctx, up.Leave.Reason)
		case up.Restart != nil:
			err = s.restart(ctx, up.Restart.WindowMilli)
		case up.Stopping != nil:
			s.l.stoppingWorker(s.hello.Worker)
		case up.Drain != nil:
			err = s.drain(ctx, *up.Drain)
		default:
			err = fmt.Errorf("%w: a worker session's message has no known content", model.ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
}

// takeReport hands a report on to be committed. An acknowledgement covers all reports up to its own, so none may be
// missing or come late: the session ends, and on the next one the worker says again what has not been acknowledged.
func (s *workerSession) takeReport(ctx context.Context, r model.WorkerReport) error {
	switch due := s.reported + 1; {
	case r.Seq < due:
		return nil // a copy
	case r.Seq > due:
		return fmt.Errorf("%w: worker %s: report %d came when %d was due", model.ErrUnavailable, s.hello.Worker, r.Seq, due)
	}
	s.reported = r.Seq
	select {
	case s.reports <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *workerSession) push(ctx context.Context, d model.WorkerDown) error {
	select {
	case s.out <- d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *workerSession) sendLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-s.out:
			if err := s.send(d); err != nil {
				return err
			}
		}
	}
}

// send writes one message, beside others that do.
func (s *workerSession) send(d model.WorkerDown) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(d)
}

// launchesNothing reports whether the worker answers a launch with LOST: it
// cannot start anything now.
func launchesNothing(v *fsm.View, r model.WorkerReport) bool {
	return slices.ContainsFunc(r.Executors, func(x model.ExecutorReport) bool {
		e, ok := v.Executor(x.Ref)
		return ok && x.State == model.ExecutorLost && e.State == model.ExecutorPlaced
	})
}

// killStrangers orders the end of processes that the state does not know as
// unfinished: absence from a list is never an order, so each gets its own.
func (s *workerSession) killStrangers(ctx context.Context, reports []model.ExecutorReport) error {
	s.orders.Lock()
	defer s.orders.Unlock()
	v := s.l.m.fsm.View()
	for _, r := range reports {
		if r.State.Terminal() {
			continue
		}
		if e, ok := v.Executor(r.Ref); ok && !e.State.Terminal() && e.Worker == s.hello.Worker {
			continue
		}
		reason := "unknown to the cluster"
		if a, ok := v.App(r.Ref.App); ok && a.State.Terminal() {
			reason = "its application has ended"
		} else if ok || model.IsDriver(r.Ref.App) {
			reason = "given up by the cluster"
		}
		order := &model.KillOrder{Fence: s.fence(v), Ref: r.Ref, GraceMilli: model.KillGraceMilli, Reason: reason}
		if err := s.push(ctx, model.WorkerDown{Kill: order}); err != nil {
			return err
		}
	}
	return nil
}

// syncLoop compares on each wake-up, and once a second while something is
// unsettled, else after restLook: on a wake-up the executors that changed,
// otherwise every one.
func (s *workerSession) syncLoop(ctx context.Context, watch *executorWatch) error {
	if err := s.killStrangers(ctx, s.hello.Inventory); err != nil {
		return err
	}
	var touched []model.ExecutorRef
	var all, due bool
	var at time.Time // of the next look at every one
	for {
		touched, all = watch.drain(touched) // before the view: it has all of it
		if err := s.sync(ctx, touched, all || due); err != nil {
			return err
		}
		if now := time.Now(); due || at.IsZero() || s.unsettled && at.Sub(now) > loopTick {
			at = now.Add(lookAfter(s.unsettled))
		}
		why := await(ctx, time.Until(at), watch.poke, nil)
		if why == byEnd {
			return ctx.Err()
		}
		due = why == byTime
	}
}

// sync sends what the state wants of this worker and has not been sent, or was
// sent so long ago that it may be lost. It looks at the executors that were
// touched, or at all.
func (s *workerSession) sync(ctx context.Context, touched []model.ExecutorRef, all bool) error {
	s.orders.Lock()
	defer s.orders.Unlock()
	v := s.l.m.fsm.View()
	w, ok := v.Worker(s.hello.Worker)
	if ok && w.State == model.WorkerLeft && w.Incarnation == s.hello.Incarnation {
		return nil // on its own word; the worker closes the session
	}
	if !ok || w.Incarnation != s.hello.Incarnation || w.State.Gone() {
		err := s.push(ctx, model.WorkerDown{Rehello: &model.Rehello{Fence: s.fence(v), Reason: "declared dead"}})
		return errors.Join(err, fmt.Errorf("%w: worker %s", model.ErrDeclaredDead, s.hello.Worker))
	}
	o := orders{s: s, v: v, worker: w, fence: s.fence(v), now: time.Now()}
	if all {
		o.everything()
	} else {
		o.some(touched)
	}
	for _, d := range o.list {
		if err := s.push(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// orders is one comparison of a worker session with the view.
type orders struct {
	s      *workerSession
	v      *fsm.View
	worker *model.Worker
	fence  model.Fence
	now    time.Time
	list   []model.WorkerDown
}

// everything looks at each unfinished executor of the worker, and at each
// application that has had one there.
func (o *orders) everything() {
	s := o.s
	s.unsettled = false
	clear(s.open)
	clear(s.here)
	o.v.WorkerExecutors(s.hello.Worker, func(e *model.Executor) bool {
		o.order(e)
		return true
	})
	for ref := range s.launched {
		s.forgetEnded(ref)
	}
	for ref := range s.killed {
		s.forgetEnded(ref)
	}
	for id := range s.apps {
		o.endOf(id)
	}
}

// some looks at the named executors, and at the applications of those that are
// over.
func (o *orders) some(refs []model.ExecutorRef) {
	s := o.s
	for _, ref := range refs {
		e, ok := o.v.Executor(ref)
		if ok && !e.State.Terminal() && e.Worker == s.hello.Worker {
			o.order(e)
			continue
		}
		if _, was := s.open[ref]; was {
			delete(s.open, ref)
			if s.here[ref.App]--; s.here[ref.App] == 0 {
				delete(s.here, ref.App)
			}
		}
		s.forgetEnded(ref)
		if _, known := s.apps[ref.App]; known {
			o.endOf(ref.App)
		}
	}
}

// order sends what the state of one unfinished executor asks for.
func (o *orders) order(e *model.Executor) {
	s, ref := o.s, e.Ref()
	if _, known := s.open[ref]; !known {
		s.open[ref] = struct{}{}
		s.here[ref.App]++
		s.apps[ref.App] = struct{}{}
	}
	if e.State == model.ExecutorPlaced || e.State == model.ExecutorKilling {
		s.unsettled = true
	}
	s.l.shield(ref.App, "ordering an executor", func() {
		switch {
		case e.State == model.ExecutorPlaced && o.worker.State != model.WorkerRestarting && o.now.Sub(s.launched[ref]) >= orderResend:
			if spec, ok := launchSpec(o.v, e); ok {
				s.launched[ref] = o.now
				o.list = append(o.list, model.WorkerDown{Launch: s.launch(o.fence, spec, e)})
			}
		case e.State == model.ExecutorKilling && o.now.Sub(s.killed[ref]) >= orderResend:
			s.killed[ref] = o.now
			o.list = append(o.list, model.WorkerDown{Kill: &model.KillOrder{Fence: o.fence, Ref: ref, GraceMilli: model.KillGraceMilli, Reason: e.Reason}})
		}
	})
}

// endOf tells the worker, once per session, that an application is over and has
// no executor left on it.
func (o *orders) endOf(id model.AppID) {
	if o.s.here[id] > 0 {
		return
	}
	if a, ok := o.v.App(id); ok && !a.State.Terminal() || driverActive(o.v, id) {
		o.s.unsettled = true // nobody tells this session of its end
		return
	}
	delete(o.s.apps, id)
	o.list = append(o.list, model.WorkerDown{AppEnded: &model.AppEndedOrder{Fence: o.fence, App: id}})
}

// forgetEnded drops what was remembered of an executor that is over.
func (s *workerSession) forgetEnded(ref model.ExecutorRef) {
	if _, ok := s.open[ref]; !ok {
		delete(s.launched, ref)
		delete(s.killed, ref)
	}
}

func (s *workerSession) launch(fence model.Fence, spec model.AppSpec, e *model.Executor) *model.LaunchOrder {
	return &model.LaunchOrder{
		Fence: fence, Ref: e.Ref(), Spec: spec, Profile: e.Profile,
		Cores: e.Cores, MemoryMiB: e.MemoryMiB, Resources: e.Resources,
		Secret: e.Secret, MasterAddr: s.l.m.masterAddrs(),
	}
}

// leave commits LEFT and tells the worker so.
func (s *workerSession) leave(ctx context.Context, reason string) error {
	if err := s.l.m.propose(ctx, leaveWorkerCommand(s.hello.Worker, s.hello.Incarnation, reason)); err != nil {
		return fmt.Errorf("commit leave of worker %s: %w", s.hello.Worker, err)
	}
	return s.push(ctx, model.WorkerDown{LeaveOK: &model.LeaveOK{}})
}

// restartTries bounds how often reports may overtake a restart.
const restartTries = 16

// restart commits RESTARTING and tells the worker so. Reports of the same
// session are committed beside it, and each makes the evidence old.
func (s *workerSession) restart(ctx context.Context, windowMilli int64) error {
	for range restartTries {
		w, ok := s.l.m.fsm.View().Worker(s.hello.Worker)
		if !ok || w.Incarnation != s.hello.Incarnation || w.State.Gone() {
			return fmt.Errorf("%w: worker %s", model.ErrDeclaredDead, s.hello.Worker)
		}
		err := s.l.m.propose(ctx, restartWorkerCommand(w, windowMilli))
		if isRejected(err, model.RejectEvidence) {
			continue
		}
		if err != nil {
			return fmt.Errorf("commit restart of worker %s: %w", s.hello.Worker, err)
		}
		s.l.log.Info("worker restarts and keeps what it runs", "worker", string(s.hello.Worker), "window_ms", windowMilli)
		return s.push(ctx, model.WorkerDown{RestartOK: &model.RestartOK{}})
	}
	return fmt.Errorf("%w: restart of worker %s: reports overtook it %d times", model.ErrUnavailable, s.hello.Worker, restartTries)
}
