package why

import (
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/scheduler"
)

// Limits of one answer.
const (
	// maxReasons bounds the reasons given for one application or driver.
	maxReasons = 32
	// maxNamed bounds the workers named and the holders listed in one reason.
	maxNamed = 5
)

// View is what an explanation reads: what the scheduler sees, and beside it
// the workers that get nothing new and who holds what. *fsm.Scheduling is one.
type View interface {
	scheduler.View
	// Tick is the point of the cluster clock at which this is seen, in ms.
	Tick() int64
	// App finds an application, an ended one that is kept included.
	App(id model.AppID) (*model.App, bool)
	// PresentWorkers visits the workers that are not gone, by ascending id.
	PresentWorkers(f func(w *model.Worker, used model.Usage) bool)
	// HoldingExecutors visits the executors that are not known to be gone.
	HoldingExecutors(f func(*model.Executor) bool)
	// ExecutorsOf visits those of one application, by id.
	ExecutorsOf(app model.AppID, f func(*model.Executor) bool)

	// Driver finds a driver in cluster mode, an ended one that is kept included;
	// Attempt its process, if it has one.
	Driver(id model.DriverID) (*model.Driver, bool)
	Attempt(d *model.Driver) (*model.Executor, bool)
	// QueuedDrivers visits the drivers that wait, those included that must not be
	// launched yet, in the order of the queue.
	QueuedDrivers(f func(*model.Driver) bool)
}

// Options are what the answering master knows beside the view.
type Options struct {
	// NoLeader: nobody leads, so nothing is placed.
	NoLeader bool
	// WorkerBlocked is scheduler.Options.WorkerBlocked; nil = none.
	WorkerBlocked func(model.WorkerID) bool
}

// Explainer answers for one view. It reads the workers once and remembers what
// it has found out, so that a list costs little more than its longest answer.
// It has one owner; it is not safe for use from several goroutines.
type Explainer struct {
	v        View
	opt      Options
	settings model.Settings
	workers  []worker // not gone, by id
	sizes    map[string]*fitting
	held     map[model.WorkerID][]holding // nil = not read yet
	queue    *line                        // of apps; nil = not read yet
	apps     []*model.App                 // that wait
	shares   map[string][]model.WhyHolder // of limits, by what they are for
	planned  map[string]bool              // ids that a pass would place now; nil = not asked yet

	driverQueue *line // nil = not read yet
	drivers     []*model.Driver
}

// worker is one that is not gone.
type worker struct {
	rec  *model.Worker
	free model.Free
	// away says why nothing new is placed there; "" = it is open.
	away string
}

// New reads the workers of a view.
func New(v View, opt Options) *Explainer {
	x := &Explainer{v: v, opt: opt, settings: v.Settings(), sizes: make(map[string]*fitting), shares: make(map[string][]model.WhyHolder)}
	v.PresentWorkers(func(w *model.Worker, used model.Usage) bool {
		x.workers = append(x.workers, worker{rec: w, free: model.FreeOf(w.Offer, used), away: x.away(w)})
		return true
	})
	return x
}

// away says why a worker gets nothing new.
func (x *Explainer) away(w *model.Worker) string {
	if w.State != model.WorkerAlive {
		return string(w.State)
	}
	if x.opt.WorkerBlocked != nil && x.opt.WorkerBlocked(w.ID) {
		return "silent"
	}
	if _, _, open := x.v.SchedulableWorker(w.ID); !open {
		return "holding more than it offers"
	}
	return ""
}

// App explains one application; false if it is not known. The fields Version
// and Staleness are the caller's to fill.
func App(v View, id model.AppID, opt Options) (model.Why, bool) {
	a, ok := v.App(id)
	if !ok {
		return model.Why{}, false
	}
	return New(v, opt).App(a), true
}

// Driver is App for a driver in cluster mode.
func Driver(v View, id model.DriverID, opt Options) (model.Why, bool) {
	d, ok := v.Driver(id)
	if !ok {
		return model.Why{}, false
	}
	return New(v, opt).Driver(d), true
}
