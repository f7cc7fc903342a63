package scheduler

import (
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// Driver is a driver that waits for a worker: its id and what it needs. No
// more than that is known of drivers here.
type Driver struct {
	ID        string
	Cores     int // at least 1
	MemoryMiB int64
	Resources map[string]int // resource name -> how many addresses
}

// Drivers are those that wait, and the rules for them (spark-standalone 1.E).
type Drivers struct {
	// Waiting is the queue. One that does not fit is skipped, not waited for.
	Waiting []Driver
	// SpreadOut tries workers by ascending id from the first behind After on,
	// and goes round; otherwise each driver takes the first that fits by id.
	// Spark shuffles the workers before each pass instead, which nobody can
	// repeat.
	SpreadOut bool
	// After is the worker that got a driver last, which is that of the last
	// DriverPlacement that was applied; it need not exist any more.
	After model.WorkerID
	// Max bounds the drivers that are placed, those that are placed already
	// included; 0 = no limit.
	Max    int
	Placed int
	// MaxCores bounds the cores of drivers that are placed, Cores are those that
	// are placed already; 0 = no limit. A driver that would pass it is skipped.
	MaxCores int
	Cores    int
}

// DriverPlacement is a decision to launch a driver.
type DriverPlacement struct {
	Driver      string
	Worker      model.WorkerID
	Incarnation uint64
	Resources   model.Resources // the addresses that it gets
}

// placeDrivers places what fits of the queue and charges the pool.
func (p *Pool) placeDrivers(ds Drivers, blocked func(model.WorkerID) bool) []DriverPlacement {
	var out []DriverPlacement
	after, cores := ds.After, ds.Cores
	for i := range ds.Waiting {
		if ds.Max > 0 && ds.Placed+len(out) >= ds.Max {
			break
		}
		d := &ds.Waiting[i]
		if ds.MaxCores > 0 && cores+max(d.Cores, 1) > ds.MaxCores {
			continue
		}
		prof := model.Profile{Cores: max(d.Cores, 1), MemoryMiB: d.MemoryMiB, Resources: d.Resources}
		from := 0
		if ds.SpreadOut {
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
		out = append(out, DriverPlacement{Driver: d.ID, Worker: w.ID, Incarnation: w.Incarnation, Resources: addrs})
	}
	return out
}

// firstAfter is the position, by ascending id, of the first worker behind one.
func (p *Pool) firstAfter(id model.WorkerID) int {
	i, found := slices.BinarySearchFunc(p.ranks, id, func(r int32, id model.WorkerID) int {
		return strings.Compare(string(p.slots[r].worker.ID), string(id))
	})
	if found {
		i++
	}
	return i
}

// firstFit finds the first worker by ascending id from a position on, going
// round, that holds the profile. Whether there is one at all is asked of the
// tree first, so that a driver that fits nowhere costs no walk.
func (p *Pool) firstFit(prof *model.Profile, from int, blocked func(model.WorkerID) bool) (int32, bool) {
	d := Demand{Profile: *prof, CoresLeft: prof.Cores, Wanted: 1}
	if shares, _ := p.assign(&d, 1, nil, blocked); len(shares) == 0 {
		return 0, false
	}
	for i := range p.ranks {
		at := p.ranks[(from+i)%len(p.ranks)]
		s := &p.slots[at]
		if s.place == inTree && model.Fits(p.free(s), prof.Cores, prof.MemoryMiB, prof.Resources) &&
			(blocked == nil || !blocked(s.worker.ID)) {
			return at, true
		}
	}
	return 0, false
}
