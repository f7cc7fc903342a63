package scheduler

import (
	"slices"

	"github.com/hearthd/hearth/model"
)

// pool is what the workers have free during one pass. It is filled from the
// view and charged with each placement, so that later applications see what
// earlier ones took.
type pool struct {
	slots   []slot
	compare func(a, b *slot) int
	// misfits are shapes for which no worker had room. What is free only
	// shrinks during a pass, so nobody looks for them again: many waiting
	// applications of one shape cost one look at the workers.
	misfits map[shape]bool

	// Kept between calls to save allocations.
	found []*slot
	frees []model.Free
}

// shape is an executor's size. Profiles with custom resources have none: they
// are few.
type shape struct {
	cores     int
	memoryMiB int64
}

// newPool reads the workers that have a core left.
func newPool(v View, policy model.SelectionPolicy, blocked func(model.WorkerID) bool) *pool {
	p := &pool{compare: compareSlots(policy), misfits: make(map[shape]bool)}
	v.SchedulableWorkers(func(w *model.Worker, used model.Usage) bool {
		free := model.FreeOf(w.Offer, used)
		if free.Cores < 1 || (blocked != nil && blocked(w.ID)) {
			return true
		}
		p.slots = append(p.slots, slot{worker: w, free: free})
		return true
	})
	return p
}

// empty reports whether no worker has a core left.
func (p *pool) empty() bool { return len(p.slots) == 0 }

// candidates returns the workers where one executor of the profile fits and
// that are not excluded, in the order in which they are tried, and what each
// has free. Both are valid until the next call.
func (p *pool) candidates(prof model.Profile, excluded func(model.WorkerID) bool) ([]*slot, []model.Free) {
	key := shape{cores: max(prof.Cores, 1), memoryMiB: prof.MemoryMiB}
	plain := len(prof.Resources) == 0
	if plain && p.misfits[key] {
		return nil, nil
	}
	p.found = p.found[:0]
	fits := false
	for i := range p.slots {
		s := &p.slots[i]
		if !model.Fits(s.free, key.cores, prof.MemoryMiB, prof.Resources) {
			continue
		}
		fits = true
		if !excluded(s.worker.ID) {
			p.found = append(p.found, s)
		}
	}
	if plain && !fits {
		p.misfits[key] = true
	}
	slices.SortFunc(p.found, p.compare)
	p.frees = p.frees[:0]
	for _, s := range p.found {
		p.frees = append(p.frees, s.free)
	}
	return p.found, p.frees
}

// charge takes one executor out of a slot and returns the addresses it got. It
// reports false and changes nothing if the executor does not fit.
func (s *slot) charge(cores int, prof model.Profile) (model.Resources, bool) {
	if !model.Fits(s.free, cores, prof.MemoryMiB, prof.Resources) {
		return nil, false
	}
	addrs, ok := model.TakeAddresses(s.free, prof.Resources)
	if !ok {
		return nil, false
	}
	s.free.Cores -= cores
	s.free.MemoryMiB -= prof.MemoryMiB
	if len(addrs) > 0 {
		if !s.ownUsed { // the view's map is not ours to write
			s.free.Used = s.free.Used.Clone()
			if s.free.Used == nil {
				s.free.Used = make(model.Resources, len(addrs))
			}
			s.ownUsed = true
		}
		for name, a := range addrs {
			s.free.Used[name] = append(s.free.Used[name], a...)
		}
	}
	return addrs, true
}

// sweep forgets workers without a free core. It ends the use of what
// candidates returned.
func (p *pool) sweep() {
	p.slots = slices.DeleteFunc(p.slots, func(s slot) bool { return s.free.Cores < 1 })
}
