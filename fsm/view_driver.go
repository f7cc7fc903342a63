package fsm

import (
	"strings"

	"github.com/hearthd/hearth/model"
)

// Driver finds a driver in cluster mode, ended ones included while they are
// kept.
func (v *View) Driver(id model.DriverID) (*model.Driver, bool) { return v.s.driver(id) }

// ActiveDrivers visits the drivers that have not ended, in order of submission,
// until visit returns false.
func (v *View) ActiveDrivers(visit func(*model.Driver) bool) {
	v.s.drivers.walk(nil, func(d *model.Driver) bool { return d.State.Terminal() || visit(d) })
}

// CountActiveDrivers counts the drivers that have not ended.
func (v *View) CountActiveDrivers() int { return v.s.drivers.n - v.s.endedDrivers.n }

// CountEndedDrivers counts the ended drivers that are kept.
func (v *View) CountEndedDrivers() int { return v.s.endedDrivers.n }

// EndedDrivers visits the ended drivers that are kept, the newest first, until
// visit returns false.
func (v *View) EndedDrivers(visit func(*model.Driver) bool) {
	v.s.endedDrivers.tree.reverse(func(_ string, n uint64) bool {
		d, found := v.s.drivers.get(numKey(n))
		return !found || visit(d)
	})
}

// QueuedDrivers visits the drivers that wait for a worker, in the order of the
// queue, those included that must not be launched yet, until visit returns false.
func (v *View) QueuedDrivers(visit func(*model.Driver) bool) { v.s.queuedDrivers(visit) }

// CountQueuedDrivers counts them.
func (v *View) CountQueuedDrivers() int { return v.s.waiting.n }

// PlacedDrivers counts the drivers that have a worker now: what the limit of
// drivers is about (spark-standalone 1.E).
func (v *View) PlacedDrivers() int { return v.s.placedDrivers() }

// DriverCursor is the worker that got a driver last; it need not exist any more.
func (v *View) DriverCursor() model.WorkerID { return v.s.meta.driverCursor }

// DriverByPrefix lists the drivers whose ids begin with prefix, in order of
// submission.
func (v *View) DriverByPrefix(prefix string) []model.DriverID {
	var out []model.DriverID
	v.s.drivers.walk(nil, func(d *model.Driver) bool {
		if strings.HasPrefix(string(d.ID), prefix) {
			out = append(out, d.ID)
		}
		return true
	})
	return out
}

// DriverApps visits the applications of a driver that have not ended, in order
// of registration, until visit returns false.
func (v *View) DriverApps(id model.DriverID, visit func(*model.App) bool) {
	d, ok := v.s.driver(id)
	if !ok {
		return
	}
	v.s.byDriver.tree.walkPrefix(numKey(d.Number), func(_ string, n uint64) bool {
		a, found := v.s.apps.get(numKey(n))
		return !found || visit(a)
	})
}

// Attempt finds the unfinished process of a driver, if it has one.
func (v *View) Attempt(d *model.Driver) (*model.Executor, bool) {
	return v.s.executors.get(attemptKey(d.Number, model.ExecutorID(d.Attempt)))
}

// WaitingDrivers visits the drivers that may be placed now, in the order of the
// queue, until visit returns false. One that was queued again has its old place.
func (v *Scheduling) WaitingDrivers(visit func(*model.Driver) bool) {
	v.s.queuedDrivers(func(d *model.Driver) bool { return d.BackoffUntil > v.tick || visit(d) })
}

// WaitingDriver finds one of them.
func (v *Scheduling) WaitingDriver(id model.DriverID) (*model.Driver, bool) {
	d, ok := v.s.driver(id)
	return d, ok && d.State.Queued() && d.BackoffUntil <= v.tick
}

// PlacedDrivers counts the drivers that have a worker now.
func (v *Scheduling) PlacedDrivers() int { return v.s.placedDrivers() }

// DriverCursor is the worker that got a driver last.
func (v *Scheduling) DriverCursor() model.WorkerID { return v.s.meta.driverCursor }

// nextDriverWake is the next tick at which a driver may be launched again; 0 =
// none.
func (v *Scheduling) nextDriverWake() int64 {
	var next int64
	v.s.queuedDrivers(func(d *model.Driver) bool {
		if d.BackoffUntil > v.tick {
			next = sooner(next, d.BackoffUntil)
		}
		return true
	})
	return next
}

func (s *state) queuedDrivers(visit func(*model.Driver) bool) {
	s.waiting.tree.walk(func(k string, _ struct{}) bool {
		d, ok := s.drivers.get([]byte(k))
		return !ok || visit(d)
	})
}

func (s *state) placedDrivers() int { return s.drivers.n - s.endedDrivers.n - s.waiting.n }

// AttemptAt finds the process of an attempt: the present one, or one of the ended
// ones that its driver still keeps.
func (v *View) AttemptAt(ref model.ExecutorRef) (*model.Executor, bool) { return v.s.attempt(ref) }

// MayComeBack reports whether the last attempt of a driver was given up although its
// process may still run: its worker is silent, and takes it along when it is heard
// before the next attempt (readopt).
func (v *View) MayComeBack(d *model.Driver) bool { return mayComeBack(d) }
