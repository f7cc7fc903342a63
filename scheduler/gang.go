package scheduler

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// kept are cores and memory that a pass keeps free for a gang that has waited
// too long: they are charged to the pool for everybody else.
type kept struct {
	app   model.AppID // "" = none
	slots []keptSlot
}

type keptSlot struct {
	at            int32
	cores, memory int32
}

// keep keeps what is free for the oldest gang that is due and that the workers
// could ever hold.
func (ps *pass) keep() {
	ps.view.DueGangs(func(a *model.App) bool {
		return ps.opt.AppHeld != nil && ps.opt.AppHeld(a.ID) || !ps.keepFor(a)
	})
}

// site is a worker on which a gang might wait for cores.
type site struct {
	at         int32
	whole, now int // executors that it could hold if it were empty, and holds now
}

// keepFor keeps what is free on the workers that are closest to holding the
// gang, at most half of all cores. It reports false if all workers together
// could not hold it.
func (ps *pass) keepFor(a *model.App) bool {
	pool, need := ps.ix.pool, model.GangNeeds(a)
	d := Demand{Profile: a.Profiles[model.ProfileDefault]}
	var sites []site
	total, whole := 0, 0
	for _, at := range pool.ids {
		s := &pool.slots[at]
		if s.gone {
			continue
		}
		total += s.worker.Offer.Cores
		if !model.HasLabels(s.worker, a.Spec.Require) || len(a.Excluded) > 0 && ps.view.Excluded(a.ID, s.worker.ID) {
			continue
		}
		empty, free := model.FreeOf(s.worker.Offer, model.Usage{}), pool.free(s)
		x := site{at: at, whole: executors(&empty, &d), now: executors(&free, &d)}
		if x.whole > 0 {
			sites = append(sites, x)
			whole += x.whole
		}
	}
	if need == 0 || whole < need {
		return false
	}
	slices.SortFunc(sites, func(x, y site) int {
		return cmp.Or(cmp.Compare(y.now, x.now), cmp.Compare(pool.slots[y.at].free[dimCores], pool.slots[x.at].free[dimCores]),
			strings.Compare(string(pool.slots[x.at].worker.ID), string(pool.slots[y.at].worker.ID)))
	})
	ps.kept.app = a.ID
	most := int32(total / 2)
	for _, x := range sites {
		if need <= 0 || most <= 0 {
			break
		}
		n := min(x.whole, need)
		need -= n
		most -= ps.keepSlot(x.at, &d.Profile, int32(n), most)
	}
	return true
}

// executors is how many executors of a demand a worker holds.
func executors(f *model.Free, d *Demand) int {
	n := mostSteps(f, d)
	if d.oneEach() {
		n = min(n, 1)
	}
	return n
}

// keepSlot keeps what n executors need, as far as it is free, and at most so
// many cores. It returns how many cores that are.
func (ps *pass) keepSlot(at int32, prof *model.Profile, n, most int32) int32 {
	s := &ps.ix.pool.slots[at]
	k := keptSlot{
		at:     at,
		cores:  max(min(s.free[dimCores], n*int32(max(prof.Cores, 1)), most), 0),
		memory: int32(max(min(int64(s.free[dimMemory]), int64(n)*prof.MemoryMiB), 0)),
	}
	if k.cores == 0 {
		return 0
	}
	s.free[dimCores] -= k.cores
	s.free[dimMemory] -= k.memory
	ps.ix.pool.settle(at)
	ps.kept.slots = append(ps.kept.slots, k)
	return k.cores
}

// lend lets the gang have what is kept for it.
func (ps *pass) lend() {
	for _, k := range ps.kept.slots {
		s := &ps.ix.pool.slots[k.at]
		s.free[dimCores] += k.cores
		s.free[dimMemory] += k.memory
		ps.ix.pool.settle(k.at)
	}
}

// retake keeps what is left of it until the end of the pass: what is free for
// others must not grow during one.
func (ps *pass) retake() {
	for i := range ps.kept.slots {
		k := &ps.kept.slots[i]
		s := &ps.ix.pool.slots[k.at]
		k.cores, k.memory = max(min(k.cores, s.free[dimCores]), 0), max(min(k.memory, s.free[dimMemory]), 0)
		s.free[dimCores] -= k.cores
		s.free[dimMemory] -= k.memory
		ps.ix.pool.settle(k.at)
	}
}

// giveBack ends keeping.
func (ps *pass) giveBack() {
	ps.lend()
	ps.kept = kept{}
}
