package scheduler

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// Pool is what workers have free, in the order in which they are tried. A
// decision costs time in proportion to the workers that it gives something to
// and to the logarithm of their number, whatever the policy, as long as one
// resource besides the policy's own can be short; with more of them it may
// look at workers that have each of them but not all.
//
// A Pool has one owner; it is not safe for use from several goroutines.
type Pool struct {
	order   order
	ranking ranking
	slots   []slot
	byID    map[model.WorkerID]int32
	ids     []int32 // slots by ascending id
	// stale: a worker has come between others, so that positions are not those
	// of ids and the ranking has to be made anew before it is used.
	stale bool
	// addresses are the custom resources of the workers that have some, and
	// names those that the ranking tracks.
	addresses []addresses
	names     []string
	// parked are slots that were found blocked; they are asked again before
	// the next pass.
	parked []int32

	// round are the same workers by id, if drivers were placed lately (byIDs).
	round     *grid
	wentRound bool

	now    assignment // scratch of assign
	sought capacity   // scratch of assign
}

// slot is one worker: less than a cache line, since a decision in a large
// cluster costs what it touches.
type slot struct {
	worker    *model.Worker
	free      capacity // model's limits keep it in range
	rank      uint32   // where it is in the ranking
	pos       uint32   // position in Pool.ids, unless that is stale
	addresses int32    // position + 1 in Pool.addresses; 0 = none
	place     place
	gone      bool // it may get nothing: it is not in the view
}

// place is where a slot is.
type place uint8

const (
	outside place = iota // it gets nothing, or has nothing left
	inOrder
	parked
)

// addresses are the custom resources of one worker.
type addresses struct {
	offered, used model.Resources
	own           bool // used belongs to the pool and may be written
}

// NewPool returns a pool without workers. An unknown policy is
// model.CoresFreeDesc.
func NewPool(policy model.SelectionPolicy) *Pool {
	p := &Pool{order: orderOf(policy), byID: make(map[model.WorkerID]int32)}
	p.ranking = p.newRanking()
	return p
}

// newRanking is empty and tracks what is asked for.
func (p *Pool) newRanking() ranking {
	if !p.order.memory {
		return newGrid(&p.slots, &p.ids)
	}
	s := newSorted(dimCores)
	for i := range p.names {
		s.track(dimResources + i)
	}
	return s
}

// Len counts the workers that have a core left and are not known to be blocked.
func (p *Pool) Len() int {
	p.freshen()
	return p.ranking.size()
}

// Set adds a worker that may get executors, or says what it offers and what is
// in use there now. The record and its maps are kept and not changed.
func (p *Pool) Set(w *model.Worker, used model.Usage) {
	at, known := p.byID[w.ID]
	if !known {
		at = int32(len(p.slots))
		p.slots = append(p.slots, slot{worker: w})
		p.byID[w.ID] = at
		p.enlist(at)
	}
	p.update(at, w, &used)
}

func (p *Pool) update(at int32, w *model.Worker, used *model.Usage) {
	s := &p.slots[at]
	cores, memory := int32(w.Offer.Cores-used.Cores), int32(w.Offer.MemoryMiB-used.MemoryMiB)
	if s.worker == w && s.free[dimCores] == cores && s.free[dimMemory] == memory && s.place != outside && s.addresses == 0 && len(w.Offer.Resources) == 0 {
		return // most often, when everything is read
	}
	s.worker, s.free[dimCores], s.free[dimMemory], s.gone = w, cores, memory, false
	if len(w.Offer.Resources) > 0 || s.addresses > 0 {
		p.setAddresses(s, w.Offer.Resources, used.Resources)
	}
	p.settle(at)
}

// maxForgotten is how many workers that are gone, beside twice the present
// ones, a pool remembers the places of.
const maxForgotten = 1000

// setAll is Set for the workers that each visits by ascending id, and Remove
// for all others. It reports false if so many workers are gone that a new pool
// should be made.
func (p *Pool) setAll(each func(func(*model.Worker, model.Usage) bool)) bool {
	i, seen := 0, 0
	each(func(w *model.Worker, used model.Usage) bool {
		seen++
		for ; i < len(p.ids) && p.slots[p.ids[i]].worker.ID < w.ID; i++ {
			p.empty(p.ids[i])
		}
		if i < len(p.ids) && p.slots[p.ids[i]].worker.ID == w.ID {
			p.update(p.ids[i], w, &used)
		} else {
			p.Set(w, used)
		}
		i++
		return true
	})
	for ; i < len(p.ids); i++ {
		p.empty(p.ids[i])
	}
	return len(p.ids) <= 2*seen+maxForgotten
}

// setAddresses gives each name a dimension while there are any. Workers that
// came before have none of it, and that is what their slots say.
func (p *Pool) setAddresses(s *slot, offered, used model.Resources) {
	if s.addresses == 0 {
		p.addresses = append(p.addresses, addresses{})
		s.addresses = int32(len(p.addresses))
	}
	p.addresses[s.addresses-1] = addresses{offered: offered, used: used}
	for name := range offered {
		if len(p.names) < trackedResources && !slices.Contains(p.names, name) {
			p.ranking.track(dimResources + len(p.names))
			p.names = append(p.names, name)
		}
	}
}

// Remove takes out a worker that may not get executors. Unknown ones are fine.
func (p *Pool) Remove(id model.WorkerID) {
	if at, known := p.byID[id]; known {
		p.empty(at)
	}
}

func (p *Pool) empty(at int32) {
	p.slots[at].free[dimCores], p.slots[at].gone = 0, true
	p.settle(at)
}

// free is what a worker has left.
func (p *Pool) free(s *slot) model.Free {
	f := model.Free{Cores: int(s.free[dimCores]), MemoryMiB: int64(s.free[dimMemory])}
	if s.addresses > 0 {
		a := &p.addresses[s.addresses-1]
		f.Offered, f.Used = a.offered, a.used
	}
	return f
}

// settle puts a slot where its free resources belong.
func (p *Pool) settle(at int32) {
	s := &p.slots[at]
	if s.addresses > 0 {
		f := p.free(s)
		for i, name := range p.names {
			s.free[dimResources+i] = int32(max(f.FreeAddresses(name), 0))
		}
	}
	if p.stale {
		return // freshen does it
	}
	if s.free[dimCores] < 1 || s.free[dimMemory] < 0 {
		p.takeOut(at)
		return
	}
	if s.place == parked {
		return
	}
	rank := p.order.rank(&s.free)
	if s.place == inOrder {
		if p.round != nil {
			p.round.set(0, s.pos, &s.free)
		}
		if rank == s.rank {
			p.ranking.set(rank, s.pos, &s.free)
			return
		}
		p.ranking.remove(s.rank, s.pos)
	} else if p.round != nil {
		p.round.insert(at, 0, s.pos, &s.free)
	}
	p.ranking.insert(at, rank, s.pos, &s.free)
	s.rank, s.place = rank, inOrder
}

// remove takes a slot that is in order out of all orders.
func (p *Pool) remove(s *slot) {
	p.ranking.remove(s.rank, s.pos)
	if p.round != nil {
		p.round.remove(0, s.pos)
	}
}

// park puts aside those that were found blocked, the first ones excepted.
func (p *Pool) park(before int) {
	for _, at := range p.parked[before:] {
		p.remove(&p.slots[at])
		p.slots[at].place = parked
	}
}

// takeOut puts a slot outside.
func (p *Pool) takeOut(at int32) {
	s := &p.slots[at]
	switch s.place {
	case inOrder:
		p.remove(s)
	case parked:
		i := slices.Index(p.parked, at)
		p.parked = slices.Delete(p.parked, i, i+1)
	case outside:
	}
	s.place = outside
}

// need is the capacity that a worker must have for one executor.
func (p *Pool) need(prof *model.Profile) capacity {
	c := tracked(max(prof.Cores, 1), prof.MemoryMiB)
	if len(prof.Resources) > 0 {
		for i, name := range p.names {
			c[dimResources+i] = int32(prof.Resources[name])
		}
	}
	return c
}

// enlist gives a new slot its position by id. Most often ids are met in order;
// one that comes between others moves all behind it.
func (p *Pool) enlist(at int32) {
	i := len(p.ids)
	if id := p.slots[at].worker.ID; i > 0 && p.slots[p.ids[i-1]].worker.ID > id {
		i, _ = slices.BinarySearchFunc(p.ids, id, func(r int32, id model.WorkerID) int {
			return strings.Compare(string(p.slots[r].worker.ID), string(id))
		})
		p.stale = true
	}
	p.ids = slices.Insert(p.ids, i, at)
	p.slots[at].pos = uint32(i)
}

// freshen makes the ranking anew if positions have changed. It costs time in
// proportion to the workers, once in a pass before which new ones have come.
func (p *Pool) freshen() {
	if !p.stale {
		return
	}
	p.stale = false
	p.ranking, p.round = p.newRanking(), nil
	for i, at := range p.ids {
		s := &p.slots[at]
		s.pos = uint32(i)
		if s.place == inOrder {
			s.place = outside
		}
		p.settle(at)
	}
}

// Share is what a worker gets of a decision: a number of executors of one size.
type Share struct {
	Worker    *model.Worker
	Executors int
	Cores     int // of each
	// Addresses are the custom resources of each; nil if they have none.
	Addresses []model.Resources
	at        int32
}

// Take decides where a demand goes and takes it out of the pool, worker by
// worker in the order in which executor ids are to be allotted (spark-standalone
// 1.F). It appends the shares to into and returns them.
func (p *Pool) Take(d Demand, into []Share) []Share {
	shares, _ := p.assign(&d, math.MaxInt, nil, nil)
	for _, s := range shares {
		share := p.share(&d, s)
		for range share.Executors {
			if addrs, _ := p.charge(share.at, share.Cores, &d.Profile); addrs != nil {
				share.Addresses = append(share.Addresses, addrs)
			}
		}
		p.settle(share.at)
		into = append(into, share)
	}
	return into
}

// Give takes back what Take has returned for a profile.
func (p *Pool) Give(share Share, prof model.Profile) {
	s := &p.slots[share.at]
	s.free[dimCores] += int32(share.Executors * share.Cores)
	s.free[dimMemory] += int32(share.Executors) * int32(prof.MemoryMiB)
	for _, addrs := range share.Addresses {
		used := p.ownUsed(s)
		for name, list := range addrs {
			used[name] = slices.DeleteFunc(used[name], func(a string) bool { return slices.Contains(list, a) })
		}
	}
	p.settle(share.at)
}

// assign finds the workers for a demand and what each gets, without charging
// it. fits is false if no worker had room for an executor, not even one that the
// application keeps off. Blocked workers are parked until unpark. The
// shares are valid until the next call.
func (p *Pool) assign(d *Demand, bound int, excluded, blocked func(model.WorkerID) bool) (shares []share, fits bool) {
	p.now.reset(d, bound)
	if !p.now.open() {
		return nil, true // nobody has looked
	}
	cores, memory := max(d.Profile.Cores, 1), d.Profile.MemoryMiB
	p.sought = p.need(&d.Profile)
	p.freshen()
	p.ranking.start(&p.sought, p.order.rank(&p.sought), p.order.down)
	parkedBefore := len(p.parked)
	for {
		rank, at, ok := p.ranking.next()
		if !ok {
			break
		}
		s := &p.slots[at]
		free := p.free(s)
		if !model.Fits(free, cores, memory, d.Profile.Resources) {
			continue
		}
		if blocked != nil && blocked(s.worker.ID) {
			p.parked = append(p.parked, at)
			continue
		}
		if !model.HasLabels(s.worker, d.Require) {
			continue
		}
		fits = true
		if excluded != nil && excluded(s.worker.ID) {
			continue
		}
		if d.Prefer != nil {
			if !p.collect(rank, at, d.Prefer) {
				break
			}
			continue
		}
		if !p.now.offer(at, &free) {
			break
		}
	}
	p.offerEquals()
	p.park(parkedBefore)
	p.now.finish()
	return p.now.shares, fits
}

// preferred is a worker that waits for its equals to be found.
type preferred struct {
	rank   uint32
	at     int32
	labels int // how many of the preferred ones it has
}

// collect keeps a worker until all that the policy calls equal are found, and
// then offers those, who has more of the preferred labels first. It reports
// whether to go on.
func (p *Pool) collect(rank uint32, at int32, prefer map[string]string) bool {
	if e := p.now.equals; len(e) > 0 && e[0].rank != rank && !p.offerEquals() {
		return false
	}
	p.now.equals = append(p.now.equals, preferred{rank, at, model.CountLabels(p.slots[at].worker, prefer)})
	return true
}

// offerEquals offers what collect has kept. It reports whether to go on.
func (p *Pool) offerEquals() bool {
	slices.SortStableFunc(p.now.equals, func(a, b preferred) int { return cmp.Compare(b.labels, a.labels) })
	for _, e := range p.now.equals {
		free := p.free(&p.slots[e.at])
		if !p.now.offer(e.at, &free) {
			break
		}
	}
	p.now.equals = p.now.equals[:0]
	return p.now.open()
}

// unpark lets those workers back that are not blocked any more.
func (p *Pool) unpark(blocked func(model.WorkerID) bool) {
	kept := p.parked[:0]
	for _, at := range p.parked {
		s := &p.slots[at]
		if blocked != nil && blocked(s.worker.ID) {
			kept = append(kept, at)
			continue
		}
		s.place = outside
		p.settle(at)
	}
	p.parked = kept
}

// share turns the steps of one worker into executors of equal size
// (spark-standalone 1.F step 7).
func (p *Pool) share(d *Demand, s share) Share {
	out := Share{Worker: p.slots[s.ref].worker, Executors: s.steps, Cores: d.Profile.Cores, at: s.ref}
	if d.oneEach() {
		out.Executors, out.Cores = 1, s.steps
	}
	return out
}

// charge takes one executor out of a slot, which must be settled afterwards,
// and returns the addresses it got: the first free ones in order. It reports
// false and changes nothing if the executor does not fit.
func (p *Pool) charge(at int32, cores int, prof *model.Profile) (model.Resources, bool) {
	s := &p.slots[at]
	free := p.free(s)
	if !model.Fits(free, cores, prof.MemoryMiB, prof.Resources) {
		return nil, false
	}
	addrs, ok := model.TakeAddresses(free, prof.Resources)
	if !ok {
		return nil, false
	}
	s.free[dimCores] -= int32(cores)
	s.free[dimMemory] -= int32(prof.MemoryMiB)
	if len(addrs) > 0 {
		used := p.ownUsed(s)
		for name, a := range addrs {
			used[name] = append(used[name], a...)
		}
	}
	return addrs, true
}

// ownUsed is what is in use of a worker's custom resources, to be written: a
// copy, since the view's map is not ours.
func (p *Pool) ownUsed(s *slot) model.Resources {
	a := &p.addresses[s.addresses-1]
	if !a.own {
		a.used, a.own = a.used.Clone(), true
		if a.used == nil {
			a.used = make(model.Resources)
		}
	}
	return a.used
}
