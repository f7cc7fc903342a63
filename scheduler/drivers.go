package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// driverQueue holds the drivers that wait, by size. As in queue, of one size
// either all find a worker or none does, so a pass looks at the first of each.
type driverQueue struct {
	claims map[model.DriverID]*driverClaim
	sizes  map[driverSize]*driverLine
	order  driverOrder // scratch of a pass
	mark   uint64      // counts the times that everything is read
}

// driverClaim is a driver that waits.
type driverClaim struct {
	driver *model.Driver
	line   *driverLine
	mark   uint64
}

// driverSize is what a driver needs of its worker.
type driverSize struct {
	cores     int
	memoryMiB int64
	resources string
}

// driverLine is who waits with one size, first come, first served. One that was
// queued again has its old place.
type driverLine struct {
	waiting []*model.Driver
	pos     int // the first that the pass has not placed
}

func newDriverQueue() *driverQueue {
	return &driverQueue{claims: make(map[model.DriverID]*driverClaim), sizes: make(map[driverSize]*driverLine)}
}

func compareDrivers(a, b *model.Driver) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(string(a.ID), string(b.ID)))
}

// set says that a driver waits.
func (q *driverQueue) set(d *model.Driver) {
	if c := q.claims[d.ID]; c != nil {
		c.driver, c.mark = d, q.mark
		if i, found := c.line.find(d); found { // what it needs never changes
			c.line.waiting[i] = d
		}
		return
	}
	size := driverSize{max(d.Spec.Cores, 1), d.Spec.MemoryMiB, joined(d.Spec.Resources)}
	l := q.sizes[size]
	if l == nil {
		l = &driverLine{}
		q.sizes[size] = l
	}
	i, _ := l.find(d)
	l.waiting = slices.Insert(l.waiting, i, d)
	q.claims[d.ID] = &driverClaim{driver: d, line: l, mark: q.mark}
}

// find is where a driver stands, or would. Most often it is the newest.
func (l *driverLine) find(d *model.Driver) (int, bool) {
	if n := len(l.waiting); n == 0 || compareDrivers(l.waiting[n-1], d) < 0 {
		return n, false
	}
	return slices.BinarySearchFunc(l.waiting, d, compareDrivers)
}

// remove forgets a driver; unknown ones are fine.
func (q *driverQueue) remove(id model.DriverID) {
	c := q.claims[id]
	if c == nil {
		return
	}
	delete(q.claims, id)
	switch i, found := c.line.find(c.driver); {
	case !found:
		panic("scheduler: driver " + string(id) + " does not wait where it should")
	case i == 0: // the first in line is who leaves most often
		c.line.waiting[0] = nil
		c.line.waiting = c.line.waiting[1:]
	default:
		c.line.waiting = slices.Delete(c.line.waiting, i, i+1)
	}
}

// readAll takes those of a view, and forgets all others.
func (q *driverQueue) readAll(v View) {
	q.mark++
	v.WaitingDrivers(func(d *model.Driver) bool {
		q.set(d)
		return true
	})
	for id, c := range q.claims {
		if c.mark != q.mark {
			q.remove(id)
		}
	}
}

// read looks at one again.
func (q *driverQueue) read(v View, id model.DriverID) {
	if d, ok := v.WaitingDriver(id); ok {
		q.set(d)
	} else {
		q.remove(id)
	}
}

// begin starts a pass at the front of each line, and forgets empty ones.
func (q *driverQueue) begin() *driverOrder {
	q.order = q.order[:0]
	for size, l := range q.sizes {
		if l.pos = 0; len(l.waiting) == 0 {
			delete(q.sizes, size)
		} else {
			q.order = append(q.order, l)
		}
	}
	heap.Init(&q.order)
	return &q.order
}

// driverOrder is a heap of the lines that a pass has not given up, by the first
// that waits there.
type driverOrder []*driverLine

func (o driverOrder) Len() int { return len(o) }

func (o driverOrder) Less(i, j int) bool { return compareDrivers(o[i].front(), o[j].front()) < 0 }

func (o driverOrder) Swap(i, j int) { o[i], o[j] = o[j], o[i] }

// Push is for heap.Interface; nobody calls it.
func (o *driverOrder) Push(l any) { *o = append(*o, l.(*driverLine)) }

// Pop is for heap.Interface.
func (o *driverOrder) Pop() any {
	n := len(*o) - 1
	l := (*o)[n]
	*o = (*o)[:n]
	return l
}

func (l *driverLine) front() *model.Driver { return l.waiting[l.pos] }

// served goes on behind the first that waits.
func (o *driverOrder) served() {
	l := (*o)[0]
	if l.pos++; l.pos == len(l.waiting) {
		heap.Pop(o)
	} else {
		heap.Fix(o, 0)
	}
}

// placeDrivers places what fits of those that wait, by the rules of
// spark-standalone 1.E, and charges the pool. A driver that does not fit, or
// that would pass the share of cores for drivers, is skipped, not waited for: so
// are then all others of its size, since what is left only shrinks.
//
// With SpreadOutDrivers workers are tried by ascending id from the first behind
// the one that got a driver last; otherwise each driver takes the first that
// fits by id. Spark shuffles the workers before each pass instead, which nobody
// can repeat.
func (p *Pool) placeDrivers(q *driverQueue, v View, s *model.Settings, blocked func(model.WorkerID) bool) []model.DriverPlacement {
	order := q.begin()
	if order.Len() == 0 {
		return nil
	}
	var out []model.DriverPlacement
	after, placed := v.DriverCursor(), v.PlacedDrivers()
	cores, most := 0, 0
	if s.DriverShareMilli > 0 {
		cores, most = v.DriverCores()
	}
	for order.Len() > 0 && (s.MaxDrivers == 0 || placed+len(out) < s.MaxDrivers) {
		d := (*order)[0].front()
		prof := model.Profile{Cores: max(d.Spec.Cores, 1), MemoryMiB: d.Spec.MemoryMiB, Resources: d.Spec.Resources}
		if s.DriverShareMilli > 0 && cores+prof.Cores > most {
			heap.Pop(order)
			continue
		}
		from := 0
		if s.SpreadOutDrivers {
			from = p.firstAfter(after)
		}
		at, ok := p.firstFit(&prof, from, blocked)
		if !ok {
			heap.Pop(order)
			continue
		}
		addrs, _ := p.charge(at, prof.Cores, &prof) // it has just been asked
		p.settle(at)
		w := p.slots[at].worker
		after = w.ID
		cores += prof.Cores
		out = append(out, model.DriverPlacement{Driver: d.ID, Worker: w.ID, Incarnation: w.Incarnation, Resources: addrs})
		order.served()
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
// ranking, so that drivers that fit nowhere need no other order of the workers.
func (p *Pool) firstFit(prof *model.Profile, from int, blocked func(model.WorkerID) bool) (int32, bool) {
	d := Demand{Profile: *prof, CoresLeft: prof.Cores, Wanted: 1}
	if shares, _ := p.assign(&d, 1, nil, blocked); len(shares) == 0 {
		return 0, false
	}
	g := p.byIDs()
	if at, ok := p.fitBetween(g, prof, from, len(p.ids), blocked); ok {
		return at, true
	}
	return p.fitBetween(g, prof, 0, from, blocked)
}

// fitBetween finds the first worker from a position on that holds the profile,
// and that is before another one.
func (p *Pool) fitBetween(g *grid, prof *model.Profile, from, to int, blocked func(model.WorkerID) bool) (int32, bool) {
	need := p.need(prof)
	parkedBefore := len(p.parked)
	defer func() { p.park(parkedBefore) }()
	g.startAt(&need, uint32(from))
	for {
		_, at, ok := g.next()
		if !ok || int(p.slots[at].pos) >= to {
			return 0, false
		}
		s := &p.slots[at]
		switch {
		case !model.Fits(p.free(s), prof.Cores, prof.MemoryMiB, prof.Resources):
		case blocked != nil && blocked(s.worker.ID):
			p.parked = append(p.parked, at)
		default:
			return at, true
		}
	}
}

// byIDs are the workers that have something left, by id alone. Where the policy
// has another order they are kept in a second grid, from the first driver that
// is placed on until no driver has been for a while.
func (p *Pool) byIDs() *grid {
	if g, ok := p.ranking.(*grid); ok && !p.order.cores {
		return g
	}
	p.wentRound = true
	if p.round == nil {
		p.round = newGrid(&p.slots, &p.ids)
		for i, at := range p.ids {
			if s := &p.slots[at]; s.place == inOrder {
				p.round.insert(at, 0, uint32(i), &s.free)
			}
		}
	}
	return p.round
}

// restRound gives up the second grid if no driver has needed it since it was
// asked last: it makes each change of a worker dearer.
func (p *Pool) restRound() {
	if !p.wentRound {
		p.round = nil
	}
	p.wentRound = false
}
