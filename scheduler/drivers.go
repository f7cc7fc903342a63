package scheduler

import (
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// drivers are those that wait, and the rules for them (spark-standalone 1.E).
type drivers struct {
	// waiting is the queue. One that does not fit is skipped, not waited for.
	waiting []*model.Driver
	// spreadOut tries workers by ascending id from the first behind after on,
	// and goes round; otherwise each driver takes the first that fits by id.
	// Spark shuffles the workers before each pass instead, which nobody can
	// repeat.
	spreadOut bool
	// after is the worker that got a driver last, which is that of the last
	// placement that was applied; it need not exist any more.
	after model.WorkerID
	// max bounds the drivers that are placed, those that are placed already
	// included; 0 = no limit.
	max    int
	placed int
	// maxCores bounds, if bounded, the cores of drivers that are placed; cores are
	// those of drivers that are placed already. A driver that would pass it is
	// skipped.
	bounded  bool
	maxCores int
	cores    int
}

// driversOf reads them from a view.
func driversOf(v View, s *model.Settings) drivers {
	var ds drivers
	v.WaitingDrivers(func(d *model.Driver) bool {
		ds.waiting = append(ds.waiting, d)
		return true
	})
	if len(ds.waiting) == 0 {
		return ds
	}
	ds.spreadOut, ds.max = s.SpreadOutDrivers, s.MaxDrivers
	ds.after, ds.placed = v.DriverCursor(), v.PlacedDrivers()
	if s.DriverShareMilli > 0 {
		ds.bounded = true
		ds.cores, ds.maxCores = v.DriverCores()
	}
	return ds
}

// placeDrivers places what fits of the queue and charges the pool.
func (p *Pool) placeDrivers(ds drivers, blocked func(model.WorkerID) bool) []model.DriverPlacement {
	var out []model.DriverPlacement
	after, cores := ds.after, ds.cores
	for i := range ds.waiting {
		if ds.max > 0 && ds.placed+len(out) >= ds.max {
			break
		}
		d := &ds.waiting[i].Spec
		if ds.bounded && cores+max(d.Cores, 1) > ds.maxCores {
			continue
		}
		prof := model.Profile{Cores: max(d.Cores, 1), MemoryMiB: d.MemoryMiB, Resources: d.Resources}
		from := 0
		if ds.spreadOut {
			from = p.firstAfter(after)
		}
		at, ok := p.firstFit(&prof, from, blocked)
		if !ok {
			continue
		}
		addrs, ok := p.charge(at, prof.Cores, &prof)
		if !ok { // cannot be: it has just been asked
			continue
		}
		p.settle(at)
		w := p.slots[at].worker
		after = w.ID
		cores += prof.Cores
		out = append(out, model.DriverPlacement{Driver: ds.waiting[i].ID, Worker: w.ID, Incarnation: w.Incarnation, Resources: addrs})
	}
	return out
}

// firstAfter is the position, by ascending id, of the first worker behind one.
func (p *Pool) firstAfter(id model.WorkerID) int {
	i, found := slices.BinarySearchFunc(p.ids, id, func(r int32, id model.WorkerID) int {
		return strings.Compare(string(p.slots[r].worker.ID), string(id))
	})
	if found {
		i++
	}
	return i
}

// firstFit finds the first worker by ascending id from a position on, going
// round, that holds the profile. Whether there is one at all is asked of the
// ranking first, so that a driver that fits nowhere costs no walk.
func (p *Pool) firstFit(prof *model.Profile, from int, blocked func(model.WorkerID) bool) (int32, bool) {
	d := Demand{Profile: *prof, CoresLeft: prof.Cores, Wanted: 1}
	if shares, _ := p.assign(&d, 1, nil, blocked); len(shares) == 0 {
		return 0, false
	}
	for i := range p.ids {
		at := p.ids[(from+i)%len(p.ids)]
		s := &p.slots[at]
		if s.place == inOrder && model.Fits(p.free(s), prof.Cores, prof.MemoryMiB, prof.Resources) &&
			(blocked == nil || !blocked(s.worker.ID)) {
			return at, true
		}
	}
	return 0, false
}
