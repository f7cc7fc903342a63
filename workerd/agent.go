//go:build linux

//nolint:contextcheck // jobs outlive whoever asks for them, on purpose
package workerd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

var (
	errAgentEnded = errors.New("the worker has stopped")
	errNoSession  = errors.New("no session with a leader")
)

// agent carries out what fence, table and reports decide. Everything in it is touched only by the
// goroutine in run; others hand it functions through do.
type agent struct {
	log      hclog.Logger
	id       *identity
	offer    model.Offer
	fence    *fence
	table    *table
	reports  *reports
	journal  *journal
	dir      *workDir
	launcher *launcher
	masters  *masterList
	contact  *contact
	cleanup  chan<- model.AppID
	// changed tells gossip the cluster and incarnation; never blocks.
	changed func(cluster model.ClusterIdentity, incarnation uint64)
	// meet tells gossip where the masters are; never blocks.
	meet func(serfSeeds []string)

	keepers  *keepers              // what runs the processes
	metrics  *metrics              // nil counts nothing
	programs *programCache         // what applications run as their executors
	adopted  []effect              // what is to be done at the start of run
	heritage Heritage              // what the last start has left
	foreign  model.ClusterIdentity // of masters that have refused this worker; zero if none has

	calls chan func()
	// orders come from the session, in order.
	orders chan model.WorkerDown
	done   chan struct{} // closed when run has returned
	fail   error         // ends run
	jobs   sync.WaitGroup
	slots  chan struct{} // starts in flight

	// While calls and orders are taken together, the effects and the callers that wait until what
	// they rely on is in the journal.
	gathering bool
	effects   []effect
	waiting   []chan struct{}
	// busy is since when the agent has been at one round of them; nil while it waits.
	busy atomic.Pointer[time.Time]

	up     chan<- model.WorkerUp // nil without a session
	leader string                // gRPC address, "" without a session
	// stop is how far a graceful stop has come.
	stop stopState
	// hand is a planned restart under way, nil without one.
	hand *handover
	over bool // handed over: run ends
	// wish is a drain that the leader is asked for, nil without one.
	wish *wish
	// anew makes the session begin anew; never blocks.
	anew func()
}

// stopState is the progress of a graceful stop.
type stopState struct {
	begun      bool
	told       bool // the leader, that it has begun
	leaveSent  bool
	left       bool      // LEFT is committed
	deadline   time.Time // for all of it
	leaderless time.Time // give up then if there is no session
}

// run is the agent. When ctx ends it stops gracefully: executors are ended, their ends reported,
// LEFT committed, all within StopBound. session must run sessions until its context ends.
func (a *agent) run(ctx context.Context, session func(context.Context)) error {
	defer close(a.done)
	// Jobs and the session outlive ctx: a graceful stop needs them.
	jobs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.keepers.ctx = jobs
	var sess sync.WaitGroup
	sess.Go(func() { session(jobs) })
	a.keepers.listen(a)
	a.jobs.Go(func() { a.renewLeases(jobs) })
	a.perform(a.adopted)
	defer func() {
		cancel()
		a.drain(&sess)
	}()
	stopping := ctx.Done()
	for a.fail == nil && !a.over && !a.stopped(time.Now()) {
		a.advance(time.Now())
		message, next := a.outgoing(time.Now())
		var up chan<- model.WorkerUp
		if message != nil {
			up = a.up
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case f := <-a.calls:
			a.together(f)
		case d := <-a.orders:
			a.together(func() { a.obey(d) })
		case up <- deref(message):
			a.sent(message, time.Now())
		case <-timer.C:
		case <-stopping:
			stopping = nil
			a.beginStop(time.Now())
		}
		timer.Stop()
		a.compact()
	}
	if a.over && a.hand.again {
		return ErrRestart
	}
	return a.fail
}

func deref(m *model.WorkerUp) model.WorkerUp {
	if m == nil {
		return model.WorkerUp{}
	}
	return *m
}

// drain serves calls until everything that makes them has ended.
func (a *agent) drain(sess *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		sess.Wait()
		a.jobs.Wait()
		close(ended)
	}()
	for {
		select {
		case f := <-a.calls:
			a.together(f)
		case <-ended:
			return
		}
	}
}

// outgoing returns what to say now, nil if nothing, and when to look again.
func (a *agent) outgoing(now time.Time) (*model.WorkerUp, time.Time) {
	next := now.Add(reportRepeat)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	sooner(a.table.settle(now))
	if a.stop.begun {
		sooner(a.stop.deadline)
		if a.up == nil && a.table.live() == 0 { // else it means nothing, and once it has passed would never let us wait
			sooner(a.stop.leaderless)
		}
	}
	if a.hand != nil {
		sooner(a.hand.deadline)
	}
	if a.up == nil {
		return nil, next
	}
	if a.stop.begun && !a.stop.told {
		return &model.WorkerUp{Stopping: &model.WorkerStopping{}}, next
	}
	report, wake := a.reports.peek(now)
	sooner(wake)
	if report != nil {
		return &model.WorkerUp{Report: report}, next
	}
	if r := a.hand.request(a.contact.now()); r != nil {
		return r, next
	}
	if r := a.wish.request(); r != nil {
		return r, next
	}
	switch {
	case a.stop.begun && !a.stop.leaveSent && a.table.live() == 0 && a.reports.waiting() == 0:
		return &model.WorkerUp{Leave: &model.WorkerLeave{Reason: "stopped"}}, next
	}
	return nil, next
}

// sent takes note of what the session has taken.
func (a *agent) sent(m *model.WorkerUp, now time.Time) {
	if m.Report != nil {
		a.reports.sent(m.Report, now)
	}
	if m.Stopping != nil {
		a.stop.told = true
	}
	if m.Leave != nil {
		a.stop.leaveSent = true
	}
	if m.Restart != nil {
		a.hand.asked = true
	}
	if m.Drain != nil && a.wish != nil {
		a.wish.told = true
	}
}

// beginStop begins a graceful stop, once.
func (a *agent) beginStop(now time.Time) {
	if a.stop.begun {
		return
	}
	if a.hand != nil {
		a.abandonHandover(fmt.Errorf("%w: the worker is told to stop", model.ErrConflict))
	}
	a.log.Info("stopping: ending executors", "executors", a.table.live(), "at_most", StopBound)
	a.stop = stopState{begun: true, deadline: now.Add(StopBound), leaderless: now.Add(leaderlessStop)}
	a.perform(a.table.stop(StopGrace))
}

// stopped says whether a graceful stop is over.
func (a *agent) stopped(now time.Time) bool {
	switch {
	case !a.stop.begun:
		return false
	case a.stop.left:
		a.log.Info("left the cluster")
		return true
	case !now.Before(a.stop.deadline):
		a.log.Warn("stopped without a word from the leader; it will find out by itself", "waited", StopBound)
		return true
	case a.up == nil && a.table.live() == 0 && !now.Before(a.stop.leaderless):
		a.log.Warn("stopped without a session; the leader will find out by itself")
		return true
	}
	return false
}

func (a *agent) compact() {
	live := 2*len(a.table.tombs) + 2*len(a.table.execs) + len(a.table.ended)
	if !a.journal.wantsCompaction(live) {
		return
	}
	if err := a.journal.rewrite(a.table.records()); err != nil {
		a.log.Error("journal not compacted", "err", err)
	}
}

// hello implements sessionOwner.
func (a *agent) hello(ctx context.Context) (h model.WorkerHello, err error) {
	apps, err := a.dir.scratchApps()
	if err != nil {
		a.log.Warn("scratch directories not listed", "err", err)
	}
	doErr := a.do(ctx, func() {
		a.fence.session(a.id.incarnation)
		a.reports.session(a.id.incarnation)
		h = model.WorkerHello{
			Worker:      a.id.id,
			Incarnation: a.id.incarnation,
			BootID:      a.id.bootID,
			Cluster:     a.fence.cluster,
			HighestTerm: a.fence.term,
			Offer:       a.offer.Clone(),
			Inventory:   a.table.inventory(),
			ReportSeq:   a.reports.seq,
			Apps:        apps,
		}
	})
	return h, doErr
}

// welcome implements sessionOwner.
func (a *agent) welcome(ctx context.Context, leader string, w *model.WorkerWelcome, up chan<- model.WorkerUp) error {
	var err error
	doErr := a.do(ctx, func() {
		if err = a.fence.obey(w.Fence); err != nil {
			a.fence.refuse("Welcome", err)
			err = fmt.Errorf("welcome by %s: %w", leader, err)
			return
		}
		a.up, a.leader, a.foreign = up, leader, model.ClusterIdentity{}
		a.stop.told, a.stop.leaveSent = false, false
		if err := a.masters.remember(w.Masters); err != nil {
			a.log.Warn("masters not remembered for the next start", "err", err)
		}
		a.metrics.welcomed()
		a.log.Info("session open", "leader", leader, "term", w.Fence.Term, "cluster", w.Fence.Cluster.ID, "incarnation", a.id.incarnation)
		a.changed(a.fence.cluster, a.id.incarnation)
		a.meet(w.SerfSeeds)
	})
	return errors.Join(doErr, err)
}

// closed implements sessionOwner.
func (a *agent) closed() {
	_ = a.do(context.Background(), func() {
		a.finishOrders()
		a.up, a.leader = nil, ""
		if a.hand != nil {
			a.hand.asked = false // the next session's leader may not know
		}
		if a.wish != nil {
			a.wish.told = false
		}
	})
}

// rehello implements sessionOwner.
func (a *agent) rehello(ctx context.Context, r *model.Rehello) error {
	var err error
	doErr := a.do(ctx, func() {
		if err = a.fence.accept(r.Fence); err != nil {
			a.fence.refuse("Rehello", err)
			return
		}
		if err = a.id.bump(); err == nil {
			a.changed(a.fence.cluster, a.id.incarnation)
		}
	})
	return errors.Join(doErr, err)
}

func (a *agent) obey(d model.WorkerDown) {
	switch {
	case d.ReportAck != nil:
		for _, ref := range a.reports.ack(d.ReportAck.Seq) {
			a.perform(a.table.acknowledged(ref))
		}
	case d.Launch != nil:
		if a.admit("launch of "+d.Launch.Ref.String(), d.Launch.Fence, d.Launch.Ref) {
			a.perform(a.table.launch(d.Launch))
		}
	case d.Kill != nil:
		if a.admit("kill of "+d.Kill.Ref.String(), d.Kill.Fence, d.Kill.Ref) {
			a.perform(a.table.killOrder(d.Kill))
		}
	case d.AppEnded != nil:
		if a.admit("end of "+string(d.AppEnded.App), d.AppEnded.Fence, model.ExecutorRef{App: d.AppEnded.App}) {
			a.perform(a.table.appEnded(d.AppEnded.App))
		}
	case d.LeaveOK != nil:
		a.stop.left = a.stop.begun
	case d.RestartOK != nil:
		if a.hand != nil && a.hand.asked {
			a.hand.agreed = true
		}
	case d.DrainOK != nil:
		a.granted(d.DrainOK)
	}
}

// admit says whether an order is to be obeyed.
func (a *agent) admit(what string, f model.Fence, ref model.ExecutorRef) bool {
	_, err := refPath(ref)
	if err == nil {
		err = a.fence.obey(f)
	}
	if err != nil {
		a.fence.refuse(what, err)
		return false
	}
	return true
}

// status describes the agent for /json.
func (a *agent) status(ctx context.Context) (s Status, err error) {
	err = a.do(ctx, func() {
		s = Status{
			Worker: a.id.id, Incarnation: a.id.incarnation, Cluster: a.fence.cluster.ID, Term: a.fence.term,
			Leader: a.leader, Ready: a.up != nil && !a.stop.begun, Stopping: a.stop.begun, Restarting: a.hand != nil,
			Process: a.id.proc, Epoch: a.fence.cluster.Epoch, ForeignCluster: a.foreign.ID,
			Heritage: a.heritage, Offer: newStatusOffer(a.offer), Executors: []StatusExecutor{},
		}
		for _, r := range a.table.inventory() {
			s.Executors = append(s.Executors, StatusExecutor{ID: r.Ref.String(), State: r.State, PID: r.PID})
		}
	})
	return s, err
}

func (a *agent) ready(ctx context.Context) error {
	err := errNoSession
	if doErr := a.do(ctx, func() {
		if a.up != nil && !a.stop.begun {
			err = nil
		}
	}); doErr != nil {
		return doErr
	}
	return err
}

// alive says whether an executor may still write to its logs.
func (a *agent) alive(ctx context.Context, ref model.ExecutorRef) bool {
	alive := false
	_ = a.do(ctx, func() { alive = a.table.alive(ref) })
	return alive
}

// inUse says whether an application's directory must stay. When in doubt it must.
func (a *agent) inUse(ctx context.Context, app model.AppID) bool {
	used := true
	_ = a.do(ctx, func() { used = a.table.uses(app) })
	return used
}

// cleaned implements cleanerOwner.
func (a *agent) cleaned(ctx context.Context, app model.AppID) {
	_ = a.do(ctx, func() { a.table.cleaned(app) })
}

// cleanAgain implements cleanerOwner.
func (a *agent) cleanAgain(ctx context.Context) {
	_ = a.do(ctx, func() {
		for app := range a.table.ended {
			a.perform(a.table.cleanable(app))
		}
	})
}
