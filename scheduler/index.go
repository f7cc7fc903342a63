package scheduler

import (
	"github.com/hearthd/hearth/model"
)

// Index plans pass after pass without looking at everything each time. It
// keeps what a view says of workers, applications and drivers, ordered so that a pass
// costs time in proportion to what changed and what is placed: it looks
// neither at all workers for a decision nor at all applications for an event.
//
// An Index holds no truth of its own. Each Plan reads again what Changes names
// and what the plan before has touched, so it does not matter whether that
// plan was applied, refused or lost. A change that nobody names is missed
// until Changes.All, which a caller should therefore pass from time to time.
//
// An Index has one owner; it is not safe for use from several goroutines.
// After a panic in Plan it must be thrown away.
type Index struct {
	settings model.Settings
	pool     *Pool // nil until somebody wants something
	queue    *queue
	drivers  *driverQueue
	passes   uint64

	read    bool // something was read
	workers []model.WorkerID
	apps    []model.AppID
	placed  []model.DriverID
}

// NewIndex returns an Index that reads the whole view at its first Plan.
func NewIndex() *Index { return new(Index) }

// Outcome is what a pass has decided.
type Outcome struct {
	// Drivers come first: they take what executors would.
	Drivers []model.DriverPlacement
	// Executors are in the order in which executor ids are to be allotted.
	// Secrets are left empty.
	Executors []model.Placement
}

// Pass makes one pass: over the drivers that wait, then over all applications
// in order of registration (spark-standalone 1.E and 1.F; Spark's
// Master.schedule). A driver or application that cannot be placed reserves
// nothing and holds nobody up. The view should not be older than that of the
// call before.
func (ix *Index) Pass(v View, changed Changes, opt Options) Outcome {
	settings := v.Settings()
	if changed.All || !ix.read || !settings.Equal(ix.settings) {
		ix.readAll(v, settings)
	} else {
		ix.readChanges(v, changed)
	}
	ix.workers, ix.apps, ix.placed = ix.workers[:0], ix.apps[:0], ix.placed[:0]
	ix.passes++
	ix.queue.begin(v, settings)
	if first, _ := ix.queue.next(); first == nil && len(ix.drivers.claims) == 0 {
		return Outcome{} // most passes end without looking at a worker
	}
	if ix.pool == nil {
		ix.pool = NewPool(settings.WorkerSelectionPolicy)
		ix.pool.setAll(v.SchedulableWorkers)
	} else {
		ix.pool.unpark(opt.WorkerBlocked)
	}
	ps := &pass{ix: ix, view: v, opt: opt}
	if settings.GangAfterMilli > 0 {
		ps.keep()
	}
	var out Outcome
	out.Drivers = ix.pool.placeDrivers(ix.drivers, v, &settings, opt.WorkerBlocked)
	for _, d := range out.Drivers {
		ix.workers, ix.placed = append(ix.workers, d.Worker), append(ix.placed, d.Driver)
	}
	ps.run()
	ps.giveBack()
	out.Executors = ps.placed
	return out
}

// Forget drops an application that was only in the view of the call before: one
// that might have been registered and was not.
func (ix *Index) Forget(id model.AppID) {
	if ix.queue != nil {
		ix.queue.remove(id)
	}
}

// Plan is Pass where no drivers wait.
func (ix *Index) Plan(v View, changed Changes, opt Options) []model.Placement {
	return ix.Pass(v, changed, opt).Executors
}

// Plan is the first pass of a new Index.
func Plan(v View, opt Options) []model.Placement { return NewIndex().Plan(v, Changes{}, opt) }

// readAll reads everything. What is the same as before costs a comparison.
func (ix *Index) readAll(v View, settings model.Settings) {
	if !ix.read || !settings.Equal(ix.settings) {
		ix.settings, ix.pool, ix.queue, ix.read = settings, nil, newQueue(settings), true
		ix.drivers = newDriverQueue()
	}
	ix.drivers.readAll(v)
	ix.queue.mark++
	v.ActiveApps(func(a *model.App) bool {
		ix.readApp(v, a)
		return true
	})
	ix.queue.forget()
	if ix.pool == nil {
		return
	}
	if ix.pool.restRound(); !ix.pool.setAll(v.SchedulableWorkers) {
		ix.pool = nil
	}
}

func (ix *Index) readChanges(v View, changed Changes) {
	if ix.pool != nil {
		for _, ids := range [][]model.WorkerID{changed.Workers, ix.workers} {
			for _, id := range ids {
				if w, used, ok := v.SchedulableWorker(id); ok {
					ix.pool.Set(w, used)
				} else {
					ix.pool.Remove(id)
				}
			}
		}
	}
	for _, ids := range [][]model.AppID{changed.Apps, ix.apps} {
		for _, id := range ids {
			if a, ok := v.ActiveApp(id); ok {
				ix.readApp(v, a)
			} else {
				ix.queue.remove(id)
				ix.drivers.read(v, model.DriverID(id))
			}
		}
	}
	for _, id := range ix.placed {
		ix.drivers.read(v, id)
	}
}

func (ix *Index) readApp(v View, a *model.App) {
	left := coresLeft(a, ix.settings)
	ix.queue.set(a, left, func() bool { return v.AppBlocked(a.ID) })
}
