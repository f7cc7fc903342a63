package masterd

import (
	"context"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// workerSeat is what the leader knows of one worker beyond the state: its
// session and when it was last heard. Guarded by leadership.mu.
type workerSeat struct {
	id model.WorkerID
	// session ends the present session; nil without one.
	session context.CancelFunc
	// gen counts sessions, so that an old one does not clear a newer one.
	gen uint64
	// answered is when the last beat was answered (or the seat was armed).
	answered time.Time
	closed   time.Time // when the session was lost; zero while open
	dialing  bool      // a dial-back is running
	dialed   time.Time // when the last one ended
	warned   time.Time // of trouble in the detector
	shunned  time.Time // until then it gets no placements
	failed   bool      // gossip says failed
}

// driverSeat is the same for the driver of one application.
type driverSeat struct {
	app      model.AppID
	session  context.CancelFunc
	gen      uint64
	answered time.Time
	closed   time.Time
	seen     bool
	addr     string // of its listener, from Hello
	dialing  bool
	dialed   time.Time
}

// rebuild arms soft state afresh from the view: every deadline starts now, so
// that a new leader never acts on another one's clock.
func (l *leadership) rebuild(v *fsm.View) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Workers(func(w *model.Worker) bool {
		if !w.State.Gone() {
			l.workers[w.ID] = &workerSeat{id: w.ID, answered: now, closed: now}
		}
		return true
	})
	v.ActiveApps(func(a *model.App) bool {
		if a.Spec.Kind == model.AppKindDriver {
			l.drivers[a.ID] = &driverSeat{app: a.ID, answered: now, closed: now}
		}
		return true
	})
}

// workerSeatLocked returns the seat, made on demand.
func (l *leadership) workerSeatLocked(id model.WorkerID) *workerSeat {
	s := l.workers[id]
	if s == nil {
		s = &workerSeat{id: id}
		l.workers[id] = s
	}
	return s
}

// driverSeatLocked returns the seat, made on demand.
func (l *leadership) driverSeatLocked(app model.AppID) *driverSeat {
	s := l.drivers[app]
	if s == nil {
		s = &driverSeat{app: app}
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
	s.session, s.answered, s.closed = cancel, time.Now(), time.Time{}
	l.schedule.wake()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.gen != gen {
			return
		}
		s.session, s.closed, s.dialed = nil, time.Now(), time.Time{}
		l.schedule.wake()
	}
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
	s.session, s.answered, s.closed, s.seen, s.addr = cancel, time.Now(), time.Time{}, true, addr
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.gen != gen {
			return
		}
		s.session, s.closed = nil, time.Now()
	}
}

// answeredWorker notes an answered beat.
func (l *leadership) answeredWorker(id model.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workerSeatLocked(id).answered = time.Now()
}

// answeredDriver notes an answered beat.
func (l *leadership) answeredDriver(app model.AppID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driverSeatLocked(app).answered = time.Now()
}

// lostOn notes that a worker itself reports executors as lost: it is stopping,
// or nothing can be started there now. For a moment it gets no placements, or
// they would come back as fast as they can be committed.
func (l *leadership) lostOn(id model.WorkerID) {
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
	return s == nil || s.session == nil || time.Now().Before(s.shunned)
}
