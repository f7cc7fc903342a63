package masterd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Named times of the liveness table (design 7).
const (
	unreachableAfter = time.Second            // without a session: committed
	livenessTick     = 100 * time.Millisecond // how often seats are looked at
	stallNoticed     = time.Second            // a tick that comes so late says that this process stood still
	dialBackTimeout  = time.Second
	dialBackAgain    = time.Second
	massWindow       = 2 * time.Second
	driverSecondDial = time.Second
	detectorWarning  = time.Minute
)

// runLiveness applies the table of design 7 to every seat: the session and
// gossip are witnesses, a refused dial-back is proof, time decides the rest.
func (l *leadership) runLiveness(ctx context.Context) error {
	tick := time.NewTicker(livenessTick)
	defer tick.Stop()
	started := time.Now()
	for {
		waiting := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if stalled := time.Since(waiting); stalled > stallNoticed {
			l.log.Warn("this master stood still: nobody is blamed for that time", "for", stalled.Round(time.Millisecond).String())
			l.forgive(stalled)
		}
		l.noteGossip()
		for _, w := range l.judgeWorkers(started) { //nolint:contextcheck // dial-backs live as long as the term
			if err := l.markWorker(ctx, w); err != nil && ctx.Err() == nil {
				l.log.Warn("could not commit a verdict on a worker", "worker", string(w.worker.ID), "state", string(w.state), "err", err)
			}
		}
		for _, d := range l.judgeDrivers() { //nolint:contextcheck // dials live as long as the term
			if err := l.failDriver(ctx, d); err != nil && ctx.Err() == nil {
				l.log.Warn("could not end the application of a lost driver", "app", string(d.app), "err", err)
			}
		}
	}
}

// forgive moves every seat's times on by how long this master stood still
// (stopped, or starved of processor time): what workers and drivers have said
// meanwhile waits to be read, and a silence of its own proves nothing.
func (l *leadership) forgive(stalled time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	shift := func(t time.Time) time.Time {
		if t = t.Add(stalled); t.After(now) {
			return now
		}
		return t
	}
	for _, s := range l.workers {
		s.answered, s.closed = shift(s.answered), shift(s.closed)
	}
	for _, s := range l.drivers {
		s.answered, s.closed = shift(s.answered), shift(s.closed)
	}
}

// noteGossip copies what gossip says of workers into their seats.
func (l *leadership) noteGossip() {
	members := l.m.goss.Members()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mb := range members {
		s := l.workers[model.WorkerID(mb.ID)]
		if s == nil {
			continue
		}
		s.failed = mb.Status == gossip.StatusFailed
	}
}

// verdict is what liveness says of a worker at one moment.
type verdict struct {
	worker   *model.Worker // as it was judged: the evidence
	answered time.Time     // when it had last been heard by then
	state    model.WorkerState
	reason   string
}

// judgeWorkers looks at each seat and returns the changes to commit. It starts
// dial-backs on the side.
func (l *leadership) judgeWorkers(started time.Time) []verdict {
	v := l.m.fsm.View()
	now := time.Now()
	timeout := l.m.cfg.WorkerTimeout
	var out []verdict
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seatNewWorkersLocked(v, now)
	for id, s := range l.workers {
		w, ok := v.Worker(id)
		if !ok || w.State.Gone() {
			if s.session == nil {
				delete(l.workers, id)
			}
			continue
		}
		silent := now.Sub(s.answered)
		switch {
		case s.session != nil && silent > timeout:
			s.session()
			out = append(out, verdict{w, s.answered, model.WorkerDead, fmt.Sprintf("no answered beat for %s", timeout)})
		case s.session != nil:
			l.warnDetectorLocked(s, now)
			if w.State == model.WorkerUnreachable {
				out = append(out, verdict{w, s.answered, model.WorkerAlive, ""})
			}
		case silent > timeout:
			out = append(out, verdict{w, s.answered, model.WorkerDead, fmt.Sprintf("no session and no answered beat for %s", timeout)})
		default:
			if now.Sub(s.closed) > unreachableAfter && now.Sub(started) > timeout && w.State == model.WorkerAlive {
				out = append(out, verdict{w, s.answered, model.WorkerUnreachable, "its session is closed"})
			}
			if !s.dialing && now.Sub(s.dialed) > dialBackAgain {
				s.dialing = true
				l.sessions.Add(1)
				go l.dialBack(s, verdict{w, s.answered, model.WorkerDead, "its process is gone: gRPC and Serf ports are refused"})
			}
		}
	}
	return out
}

// seatNewWorkersLocked arms a deadline for workers that were registered in this
// term and whose session ended before it had a seat.
func (l *leadership) seatNewWorkersLocked(v *fsm.View, now time.Time) {
	v.Workers(func(w *model.Worker) bool {
		if !w.State.Gone() && l.workers[w.ID] == nil {
			l.workers[w.ID] = &workerSeat{id: w.ID, answered: now, closed: now}
		}
		return true
	})
}

// warnDetectorLocked says once a minute that gossip calls a worker failed
// whose session answers: UDP or the detector is in trouble, not the worker.
func (l *leadership) warnDetectorLocked(s *workerSeat, now time.Time) {
	if s.failed && now.Sub(s.warned) > detectorWarning {
		s.warned = now
		l.log.Warn("gossip calls a worker failed while its session answers: check UDP between the machines", "worker", string(s.id))
	}
}

// markWorker commits a verdict with the evidence it was made from, unless the
// worker has been heard since.
func (l *leadership) markWorker(ctx context.Context, d verdict) error {
	id := d.worker.ID
	w, ok := l.m.fsm.View().Worker(id)
	if !ok || w.State == d.state || w.State.Gone() || (d.state == model.WorkerDead && l.heardSince(id, d.answered)) {
		return nil
	}
	err := l.m.propose(ctx, markWorkerCommand(d.worker, d.state, d.reason))
	if isRejected(err, model.RejectEvidence, model.RejectIncarnation, model.RejectTransition) {
		return nil // it moved meanwhile: look again
	}
	if err != nil {
		return err
	}
	l.log.Warn("worker marked", "worker", string(id), "state", string(d.state), "reason", d.reason)
	return nil
}

// heardSince reports whether a worker has answered after t.
func (l *leadership) heardSince(id model.WorkerID, t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workers[id]
	return s != nil && s.answered.After(t)
}

// dialBack asks the worker's ports themselves. Both refused proves that its
// process is gone; an accepted handshake with the same id and incarnation
// counts as alive but opens no session: the worker does that.
func (l *leadership) dialBack(s *workerSeat, dead verdict) {
	defer l.sessions.Done()
	w := dead.worker
	ctx, cancel := context.WithTimeout(l.ctx, dialBackTimeout)
	defer cancel()
	refused := l.m.portRefused(ctx, w.Offer.GRPCAddr) && l.m.portRefused(ctx, w.Offer.SerfAddr)
	if !refused {
		if id, err := l.identify(ctx, w.Offer.GRPCAddr); err == nil && id.Worker == w.ID && id.Incarnation == w.Incarnation {
			l.mu.Lock()
			s.answered = time.Now()
			l.mu.Unlock()
		}
	}
	if refused && l.ctx.Err() == nil && l.noteRefusal(s) {
		err := l.markWorker(l.ctx, dead)
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("could not commit the death of a worker", "worker", string(w.ID), "err", err)
		}
	}
	l.mu.Lock()
	s.dialing, s.dialed = false, time.Now()
	l.mu.Unlock()
}

// noteRefusal counts a refusal and reports whether it decides. More than
// max(2, a quarter of the workers) within massWindow is an event of the
// network, and worker_timeout decides instead. So is a session that came back.
func (l *leadership) noteRefusal(s *workerSeat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.session != nil {
		return false
	}
	now := time.Now()
	l.refused = recent(l.refused, now)
	l.refused = append(l.refused, now)
	return len(l.refused) <= max(2, len(l.workers)/4)
}

// recent drops the times that are older than massWindow.
func recent(times []time.Time, now time.Time) []time.Time {
	var out []time.Time
	for _, t := range times {
		if now.Sub(t) <= massWindow {
			out = append(out, t)
		}
	}
	return out
}

// portRefused reports whether a TCP dial is answered with a refusal: the host
// is there and nobody listens. Anything else proves nothing.
func (m *Master) portRefused(ctx context.Context, addr string) bool {
	c, err := m.dial(ctx, addr)
	if err == nil {
		_ = c.Close() // nothing was written
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func (l *leadership) identify(ctx context.Context, addr string) (rpc.WorkerIdentity, error) {
	conn, err := l.m.conns.get(addr)
	if err != nil {
		return rpc.WorkerIdentity{}, err
	}
	return rpc.WorkerClient(conn).Identify(ctx)
}

// lostDriver is a driver whose application has to end.
type lostDriver struct {
	app    model.AppID
	reason string
}

// judgeDrivers returns the drivers that have been away for driver_timeout, and
// starts the two dials that may prove a death sooner.
func (l *leadership) judgeDrivers() []lostDriver {
	v := l.m.fsm.View()
	now := time.Now()
	timeout := l.m.cfg.DriverTimeout
	var out []lostDriver
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seatNewDriversLocked(v, now)
	for app, s := range l.drivers {
		a, ok := v.App(app)
		if !ok || a.State.Terminal() {
			if s.session == nil {
				delete(l.drivers, app)
			}
			continue
		}
		silent := now.Sub(s.answered)
		switch {
		case silent > timeout:
			if s.session != nil {
				s.session()
			}
			out = append(out, lostDriver{app, fmt.Sprintf("its driver has not been heard for %s", timeout)})
		case s.session == nil && s.seen && !s.dialing && s.addr != "" && now.Sub(s.dialed) > dialBackAgain:
			s.dialing = true
			l.sessions.Add(1)
			go l.dialDriver(s)
		}
	}
	return out
}

// seatNewDriversLocked arms a deadline for applications registered in this
// term whose driver has not opened its session yet.
func (l *leadership) seatNewDriversLocked(v *fsm.View, now time.Time) {
	v.ActiveApps(func(a *model.App) bool {
		if a.Spec.Kind == model.AppKindDriver && l.drivers[a.ID] == nil {
			l.drivers[a.ID] = &driverSeat{app: a.ID, answered: now, closed: now}
		}
		return true
	})
}

// dialDriver proves a driver's death by two refused dials one second apart; it
// decides nothing when more than a quarter of the drivers go at once.
func (l *leadership) dialDriver(s *driverSeat) {
	defer l.sessions.Done()
	addr := s.addr
	refused := l.dialRefused(addr)
	if refused {
		t := time.NewTimer(driverSecondDial)
		defer t.Stop()
		select {
		case <-t.C:
			refused = l.dialRefused(addr)
		case <-l.ctx.Done():
			refused = false
		}
	}
	l.mu.Lock()
	back := s.session != nil
	now := time.Now()
	decides := false
	if refused && !back {
		l.gone = append(recent(l.gone, now), now)
		decides = len(l.gone) <= max(1, len(l.drivers)/4)
	}
	s.dialing = refused && !back && decides // a proven death is not dialled again
	s.dialed = now
	l.mu.Unlock()
	if decides {
		err := l.failDriver(l.ctx, lostDriver{s.app, "its driver is gone: the listener is refused"})
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("could not end the application of a dead driver", "app", string(s.app), "err", err)
			l.mu.Lock()
			s.dialing = false
			l.mu.Unlock()
		}
	}
}

func (l *leadership) dialRefused(addr string) bool {
	ctx, cancel := context.WithTimeout(l.ctx, dialBackTimeout)
	defer cancel()
	return l.m.portRefused(ctx, addr)
}

// failDriver ends the application of a lost driver.
func (l *leadership) failDriver(ctx context.Context, d lostDriver) error {
	err := l.m.propose(ctx, finishAppCommand(d.app, model.AppFailed, d.reason, 255))
	if isRejected(err, model.RejectAppEnded, model.RejectUnknownApp) {
		return nil
	}
	if err == nil {
		l.log.Warn("application ended without its driver", "app", string(d.app), "reason", d.reason)
	}
	return err
}
