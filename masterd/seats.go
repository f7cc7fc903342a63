package masterd

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// workerSeat is what the leader knows of one worker beyond the state: its
// session and when it was last heard. Guarded by leadership.mu. Its times are
// those of leadership.clock.
type workerSeat struct {
	id model.WorkerID
	// number counts seats of this term from 0: its place among the beats.
	number int
	// session ends the present session; nil without one.
	session context.CancelFunc
	// gen counts sessions, so that an old one does not clear a newer one.
	gen uint64
	// answered is when the last beat was answered (or the seat was armed).
	answered time.Duration
	beat     uint64 // the number of that beat, 0 for none
	heard    int64  // the cluster clock at that moment
	closed   time.Duration
	looks    int       // in a row at which it was silent for too long
	stopping bool      // it has said so in this session
	shunned  time.Time // until then it gets no placements
	warned   time.Time // of trouble in the detector
	failed   bool      // gossip says failed
	// pursuit ends the dial-backs; nil while there are none.
	pursuit context.CancelFunc
}

// driverSeat is the same for the driver of one application.
type driverSeat struct {
	app      model.AppID
	session  context.CancelFunc
	gen      uint64
	answered time.Duration
	addr     string // of its listener, from Hello
	pursuit  context.CancelFunc
}

// rebuild arms soft state afresh from the view: every deadline starts now, so
// that a new leader never acts on another one's clock.
func (l *leadership) rebuild(v *fsm.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seatNewWorkersLocked(v)
	l.seatNewDriversLocked(v)
}

// seatNewWorkersLocked arms a deadline for workers that have no seat: all of
// them at first, later those whose session ended before it had one.
func (l *leadership) seatNewWorkersLocked(v *fsm.View) {
	v.Workers(func(w *model.Worker) bool {
		if !w.State.Gone() && l.workers[w.ID] == nil {
			l.pursueWorkerLocked(l.workerSeatLocked(w.ID), firstDialBack)
		}
		return true
	})
}

// seatNewDriversLocked arms a deadline for applications whose driver has not
// opened its session yet.
func (l *leadership) seatNewDriversLocked(v *fsm.View) {
	v.ActiveApps(func(a *model.App) bool {
		l.shield(a.ID, "seating its driver", func() {
			if a.Spec.Kind == model.AppKindDriver {
				l.driverSeatLocked(a.ID)
			}
		})
		return true
	})
}

// workerSeatLocked returns the seat, made on demand.
func (l *leadership) workerSeatLocked(id model.WorkerID) *workerSeat {
	s := l.workers[id]
	if s == nil {
		now := l.clock.now()
		s = &workerSeat{id: id, number: l.seated, answered: now, closed: now}
		l.seated++
		l.workers[id] = s
	}
	return s
}

// driverSeatLocked returns the seat, made on demand.
func (l *leadership) driverSeatLocked(app model.AppID) *driverSeat {
	s := l.drivers[app]
	if s == nil {
		s = &driverSeat{app: app, answered: l.clock.now()}
		l.drivers[app] = s
	}
	return s
}

// seatWorker installs a session, ending an older one, and returns the function
// that takes it out again.
func (l *leadership) seatWorker(id model.WorkerID, cancel context.CancelFunc) (unseat func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workerSeatLocked(id)
	if s.session != nil {
		s.session()
	}
	s.gen++
	gen := s.gen
	s.session, s.stopping, s.looks = cancel, false, 0
	s.answered, s.beat, s.heard = l.clock.now(), 0, l.m.node.ClusterTick()
	l.fallen.explain(id)
	s.pursuit = stopped(s.pursuit)
	l.schedule.wake()
	return func() { l.unseatWorker(s, gen) }
}

// unseatWorker takes a session out. Unless the worker has said that it goes,
// that is the first sign of a death, and is looked into at once.
func (l *leadership) unseatWorker(s *workerSeat, gen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.gen != gen {
		return
	}
	s.session, s.closed = nil, l.clock.now()
	w, ok := l.m.fsm.View().Worker(s.id)
	if !ok || w.State.Gone() || l.ctx.Err() != nil {
		return
	}
	if w.State != model.WorkerRestarting {
		l.fallen.note(s.id, time.Now())
	}
	l.pursueWorkerLocked(s, 0)
	l.schedule.wake()
}

// seatDriver is seatWorker for a driver.
func (l *leadership) seatDriver(app model.AppID, addr string, cancel context.CancelFunc) (unseat func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.driverSeatLocked(app)
	if s.session != nil {
		s.session()
	}
	s.gen++
	gen := s.gen
	s.session, s.answered, s.addr = cancel, l.clock.now(), addr
	l.departed.explain(app)
	s.pursuit = stopped(s.pursuit)
	return func() { l.unseatDriver(s, gen) }
}

// unseatDriver is unseatWorker for a driver.
func (l *leadership) unseatDriver(s *driverSeat, gen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.gen != gen {
		return
	}
	s.session = nil
	a, ok := l.m.fsm.View().App(s.app)
	if !ok || a.State.Terminal() || l.ctx.Err() != nil {
		return
	}
	l.departed.note(s.app, time.Now())
	l.pursueDriverLocked(s)
}

// stopped ends a pursuit, if there is one, and returns none.
func stopped(pursuit context.CancelFunc) context.CancelFunc {
	if pursuit != nil {
		pursuit()
	}
	return nil
}

// answeredWorker notes an answered beat, and returns when the next one is due,
// counted from when this one was sent.
func (l *leadership) answeredWorker(id model.WorkerID, beat uint64) (next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workerSeatLocked(id)
	if l.silentLocked(s) {
		l.schedule.wake() // it may get placements again
	}
	s.answered, s.beat, s.heard = l.clock.now(), beat, l.m.node.ClusterTick()
	return nextBeat(time.Since(l.began), l.m.cfg.WorkerBeat, s.number, len(l.workers))
}

// answeredDriver notes an answered beat.
func (l *leadership) answeredDriver(app model.AppID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driverSeatLocked(app).answered = l.clock.now()
}

// stoppingWorker notes that a worker has begun to stop.
func (l *leadership) stoppingWorker(id model.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workerSeatLocked(id).stopping = true
}

// shun keeps placements off a worker for a moment: it starts nothing, and they
// would come back as fast as they can be committed.
func (l *leadership) shun(id model.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workerSeatLocked(id).shunned = time.Now().Add(shunAfterLoss)
}

// workerBlocked reports whether orders cannot reach the worker now, or would be
// in vain: it gets no new placements. This is the soft view, ahead of the
// committed state.
func (l *leadership) workerBlocked(id model.WorkerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workers[id]
	return s == nil || s.session == nil || s.stopping || l.silentLocked(s) || time.Now().Before(s.shunned)
}

// anyBlocked reports whether workerBlocked holds for a worker that has a seat. Of
// some of what ends that nobody is told.
func (l *leadership) anyBlocked() bool {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.workers))
	l.mu.Unlock()
	return slices.ContainsFunc(ids, l.workerBlocked)
}

// withoutSession reports whether the worker has no session with this leader.
func (l *leadership) withoutSession(id model.WorkerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workers[id]
	return s == nil || s.session == nil
}

// silentLocked reports whether a beat is overdue: the worker may have stopped
// or be cut off.
func (l *leadership) silentLocked(s *workerSeat) bool {
	return l.clock.now()-s.answered > l.m.cfg.WorkerBeat+l.m.cfg.WorkerBeat*overdueFifths/5
}
