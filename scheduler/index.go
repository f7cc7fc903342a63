package scheduler

import (
	"math"

	"github.com/hearthd/hearth/model"
)

// Index plans pass after pass without looking at everything each time. It
// keeps what a view says of workers and applications, ordered so that a pass
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
	passes   uint64

	read    bool // something was read
	workers []model.WorkerID
	apps    []model.AppID
}

// NewIndex returns an Index that reads the whole view at its first Plan.
func NewIndex() *Index { return new(Index) }

// Outcome is what a pass has decided.
type Outcome struct {
	// Drivers come first: they take what executors would.
	Drivers []DriverPlacement
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
	ix.workers, ix.apps = ix.workers[:0], ix.apps[:0]
	ix.passes++
	ix.queue.begin()
	if _, l := ix.queue.head(); l == nil && len(opt.Drivers.Waiting) == 0 {
		return Outcome{} // most passes end without looking at a worker
	}
	if ix.pool == nil {
		ix.pool = NewPool(settings.WorkerSelectionPolicy)
		ix.pool.setAll(v.SchedulableWorkers)
	} else {
		ix.pool.unpark(opt.WorkerBlocked)
	}
	var out Outcome
	out.Drivers = ix.pool.placeDrivers(opt.Drivers, opt.WorkerBlocked)
	for _, d := range out.Drivers {
		ix.workers = append(ix.workers, d.Worker)
	}
	ps := &pass{ix: ix, view: v, opt: opt}
	ps.run()
	out.Executors = ps.placed
	return out
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
		ix.settings, ix.pool, ix.queue, ix.read = settings, nil, newQueue(), true
	}
	ix.queue.mark++
	v.ActiveApps(func(a *model.App) bool {
		ix.readApp(v, a)
		return true
	})
	ix.queue.forget()
	if ix.pool != nil && !ix.pool.setAll(v.SchedulableWorkers) {
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
			}
		}
	}
}

func (ix *Index) readApp(v View, a *model.App) {
	left := coresLeft(a, ix.settings)
	ix.queue.set(a, left, func() bool { return v.AppBlocked(a.ID) })
}

// pass is one Plan in progress.
type pass struct {
	ix     *Index
	view   View
	opt    Options
	placed []model.Placement
}

// run serves who waits, one after the other, until nothing is left or nobody
// waits for what is left.
func (ps *pass) run() {
	q := ps.ix.queue
	for ps.ix.pool.Len() > 0 {
		w, l := q.head()
		if l == nil {
			return
		}
		if ps.held(w.claim) {
			q.skip()
			continue
		}
		fits, over := ps.serve(w)
		switch {
		case over:
			return
		case fits:
			q.skip()
		default:
			q.drop() // what is free only shrinks during a pass
		}
	}
}

// held reports whether an application is to be left alone in this pass.
func (ps *pass) held(c *claim) bool {
	if c.asked == ps.ix.passes {
		return c.held
	}
	c.asked = ps.ix.passes
	c.held = ps.opt.AppHeld != nil && ps.opt.AppHeld(c.app.ID)
	return c.held
}

// serve places what one profile wants. fits says that other applications may
// find room for the same size, over that the pass is.
func (ps *pass) serve(w waiter) (fits, over bool) {
	a := w.claim.app
	d := w.claim.demand(w.profile, ps.ix.settings.SpreadOutApps)
	if d.CoresLeft < d.step() {
		return true, false // an earlier profile has taken them
	}
	var excluded func(model.WorkerID) bool
	if len(a.Excluded) > 0 {
		excluded = func(id model.WorkerID) bool { return ps.view.Excluded(a.ID, id) }
	}
	room := math.MaxInt
	if ps.opt.MaxPlacements > 0 {
		room = ps.opt.MaxPlacements - len(ps.placed)
	}
	shares, fits := ps.ix.pool.assign(&d, room, excluded, ps.opt.WorkerBlocked)
	if len(shares) == 0 {
		return fits, false
	}
	now := &ps.ix.pool.now
	if len(ps.placed) > 0 && (now.cut || now.started > room) {
		return true, true
	}
	ps.place(w, &d, shares)
	return true, ps.opt.MaxPlacements > 0 && (now.cut || len(ps.placed) >= ps.opt.MaxPlacements)
}

// demand is what a profile asks for.
func (c *claim) demand(profile int, spread bool) Demand {
	d := Demand{Profile: c.app.Profiles[profile], CoresLeft: c.left, SpreadOut: spread}
	for _, w := range c.wants {
		if w.profile == profile {
			d.Live, d.Wanted = w.live, w.wanted
		}
	}
	return d
}

// place charges the shares to the pool and adds the placements, worker by
// worker.
func (ps *pass) place(w waiter, d *Demand, shares []share) {
	ix, app := ps.ix, w.claim.app.ID
	ix.apps = append(ix.apps, app)
	for _, s := range shares {
		share := ix.pool.share(d, s)
		ix.workers = append(ix.workers, share.Worker.ID)
		for range share.Executors {
			addrs, ok := ix.pool.charge(share.at, share.Cores, &d.Profile)
			if !ok { // cannot be: the assignment follows the same rule
				break
			}
			if w.claim.left != math.MaxInt {
				w.claim.left -= share.Cores
			}
			ps.placed = append(ps.placed, model.Placement{
				App: app, Profile: w.profile, Worker: share.Worker.ID, Incarnation: share.Worker.Incarnation,
				Cores: share.Cores, MemoryMiB: d.Profile.MemoryMiB, Resources: addrs,
			})
		}
		ix.pool.settle(share.at)
	}
}
