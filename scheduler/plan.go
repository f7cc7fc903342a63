package scheduler

import (
	"math"
	"slices"

	"github.com/hearthd/hearth/model"
)

// Plan makes one pass over all applications in order of registration and
// returns what to place, in the order in which executor ids are to be allotted
// (spark-standalone 1.F; Spark's Master.startExecutorsOnWorkers). An
// application that cannot be placed reserves nothing and holds nobody up.
// Secrets are left empty. The cost is in the applications that want something
// times the workers that have a free core.
func Plan(v View, opt Options) []model.Placement {
	settings := v.Settings()
	ps := &pass{view: v, opt: opt, settings: settings}
	v.ActiveApps(func(a *model.App) bool {
		profiles := wanting(a, coresLeft(a, settings))
		if len(profiles) == 0 || v.AppBlocked(a.ID) {
			return true
		}
		if ps.pool == nil { // most passes end without looking at a worker
			ps.pool = newPool(v, settings.WorkerSelectionPolicy, opt.WorkerBlocked)
		}
		return ps.serve(a, profiles)
	})
	return ps.placed
}

// pass is the state of one Plan.
type pass struct {
	view     View
	opt      Options
	settings model.Settings
	pool     *pool
	placed   []model.Placement
}

// coresLeft is how many more cores the application may hold.
func coresLeft(a *model.App, s model.Settings) int {
	most := model.CoresLimit(a, s)
	if most == 0 {
		return math.MaxInt
	}
	return most - a.CoresGranted
}

// wanting lists the profiles, by ascending id, that want an executor which the
// application's cores allow.
func wanting(a *model.App, left int) []int {
	var ids []int
	for id, p := range a.Profiles {
		if left >= max(p.Cores, 1) && a.Live[id] < model.Wanted(a, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// serve places what one application wants. It returns false when the pass is
// over: no core is left anywhere, or the limit is reached.
func (ps *pass) serve(a *model.App, profiles []int) bool {
	left := coresLeft(a, ps.settings)
	excluded := func(w model.WorkerID) bool { return ps.view.Excluded(a.ID, w) }
	for _, id := range profiles {
		if ps.pool.empty() {
			return false
		}
		d := Demand{
			Profile: a.Profiles[id], CoresLeft: left,
			Wanted: model.Wanted(a, id), Live: a.Live[id],
			SpreadOut: ps.settings.SpreadOutApps,
		}
		if left < d.step() {
			continue
		}
		slots, frees := ps.pool.candidates(d.Profile, excluded)
		if len(slots) == 0 {
			continue
		}
		room, bounded := ps.room()
		assigned := AssignCores(frees, d)
		n := d.executors(assigned)
		if bounded && n > room && len(ps.placed) > 0 {
			return false
		}
		before := len(ps.placed)
		ps.place(a.ID, id, d, slots, assigned)
		for _, p := range ps.placed[before:] {
			if left != math.MaxInt {
				left -= p.Cores
			}
		}
		ps.pool.sweep()
		if room, bounded = ps.room(); bounded && room == 0 {
			return false
		}
	}
	return !ps.pool.empty()
}

// room is how many more placements the plan may have, if it is bounded.
func (ps *pass) room() (int, bool) {
	if ps.opt.MaxPlacements <= 0 {
		return 0, false
	}
	return max(ps.opt.MaxPlacements-len(ps.placed), 0), true
}

// executors counts what the assigned cores make.
func (d Demand) executors(assigned []int) int {
	n := 0
	for _, cores := range assigned {
		count, _ := d.split(cores)
		n += count
	}
	return n
}

// split turns the cores assigned on one worker into executors of equal size
// (spark-standalone 1.F step 7).
func (d Demand) split(assigned int) (count, each int) {
	switch {
	case assigned == 0:
		return 0, 0
	case d.oneEach():
		return 1, assigned
	}
	return assigned / d.Profile.Cores, d.Profile.Cores
}

// place charges the assigned cores to the pool and adds the placements, worker
// by worker, up to the limit.
func (ps *pass) place(app model.AppID, profile int, d Demand, slots []*slot, assigned []int) {
	for i, s := range slots {
		count, each := d.split(assigned[i])
		for range count {
			if room, bounded := ps.room(); bounded && room == 0 {
				return
			}
			addrs, ok := s.charge(each, d.Profile)
			if !ok { // cannot be: the assignment follows the same rule
				break
			}
			ps.placed = append(ps.placed, model.Placement{
				App: app, Profile: profile, Worker: s.worker.ID, Incarnation: s.worker.Incarnation,
				Cores: each, MemoryMiB: d.Profile.MemoryMiB, Resources: addrs,
			})
		}
	}
}
