package fsm

import "github.com/hearthd/hearth/model"

// What an explanation reads beyond what the scheduler does: also the workers
// that get nothing new, and who holds what.

// Tick is the point of the cluster clock at which this is seen, in ms.
func (v *Scheduling) Tick() int64 { return v.tick }

// PresentWorkers visits, by id, the workers that are not gone, with what is in
// use there, until visit returns false.
func (v *Scheduling) PresentWorkers(visit func(w *model.Worker, used model.Usage) bool) {
	v.s.workers.walk(nil, func(w *model.Worker) bool { return w.State.Gone() || visit(w, v.s.used(w.ID)) })
}

// HoldingExecutors visits every unfinished executor, by application number and
// id, until visit returns false.
func (v *Scheduling) HoldingExecutors(visit func(*model.Executor) bool) {
	v.s.executors.walk(nil, visit)
}

// ExecutorsOf visits the unfinished executors of one application, by id, until
// visit returns false.
func (v *Scheduling) ExecutorsOf(app model.AppID, visit func(*model.Executor) bool) {
	(&View{s: v.s}).Executors(app, visit)
}

// App finds an application, an ended one that is kept included.
func (v *Scheduling) App(id model.AppID) (*model.App, bool) { return v.s.app(id) }

// Driver finds a driver in cluster mode, an ended one that is kept included.
func (v *Scheduling) Driver(id model.DriverID) (*model.Driver, bool) { return v.s.driver(id) }

// Attempt finds the unfinished process of a driver, if it has one.
func (v *Scheduling) Attempt(d *model.Driver) (*model.Executor, bool) {
	return (&View{s: v.s}).Attempt(d)
}

// QueuedDrivers visits the drivers that wait, those included that must not be
// launched yet, in the order of the queue, until visit returns false.
func (v *Scheduling) QueuedDrivers(visit func(*model.Driver) bool) { v.s.queuedDrivers(visit) }
