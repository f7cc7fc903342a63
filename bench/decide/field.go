package decide

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/scheduler"
)

// How full the workers are kept, and what an executor takes of them.
const (
	fullTenths   = 7
	coresAverage = 4
	memoryOfCore = 4096 // MiB
	packOf       = 4    // executors of an application in the modes that place several
)

// mode is what applications look like.
type mode struct {
	name      string
	executors int
	spread    bool
}

// modes are: one executor each, four on four workers, four on as few as can be.
func modes() []mode {
	return []mode{
		{"one executor", 1, true},
		{"four spread out", packOf, true},
		{"four consolidated", packOf, false},
	}
}

// profile is the size of the executors of the i-th application: 1 to 8 cores,
// coresAverage on average, with more or less memory.
func profile(i int) model.Profile {
	return model.Profile{Cores: []int{1, 8, 2, 5, 4}[i%5], MemoryMiB: []int64{1024, 8192, 3000}[i%3]}
}

// workers are n workers of three sizes.
func workers(n int) []*model.Worker {
	out := make([]*model.Worker, n)
	for i := range out {
		cores := 16 << (i % 3)
		out[i] = &model.Worker{
			ID: model.WorkerID(fmt.Sprintf("worker-%06d", i)), Incarnation: uint64(i), State: model.WorkerAlive,
			Offer: model.Offer{Cores: cores, MemoryMiB: int64(cores) * memoryOfCore},
		}
	}
	return out
}

// lasting is how many applications keep the workers full.
func lasting(ws []*model.Worker, m mode) int {
	cores := 0
	for _, w := range ws {
		cores += w.Offer.Cores
	}
	return max(cores*fullTenths/10/coresAverage/m.executors, 1)
}

// side makes decisions on workers of its own.
type side interface {
	// give takes back what an application holds.
	give(at int)
	// take places the i-th application and remembers it under at.
	take(at, i int)
	// placed lists the workers of the application under at, one for each
	// executor.
	placed(at int, into []int) []int
}

// turns ends the oldest application and starts one, again and again.
type turns struct {
	side
	kept  int // applications at a time
	count int
}

func newTurns(s side, kept int) *turns {
	t := &turns{side: s, kept: kept}
	for range kept {
		t.take(t.count, t.count)
		t.count++
	}
	return t
}

func (t *turns) turn() {
	at := t.count % t.kept
	t.give(at)
	t.take(at, t.count)
	t.count++
}

// indexed decides with the scheduler's index.
type indexed struct {
	mode mode
	pool *scheduler.Pool
	live []held
}

type held struct {
	shares []scheduler.Share
	prof   model.Profile
}

func newIndexed(ws []*model.Worker, m mode) *indexed {
	x := &indexed{mode: m, pool: scheduler.NewPool(model.CoresFreeDesc), live: make([]held, lasting(ws, m))}
	for _, w := range ws {
		x.pool.Set(w, model.Usage{})
	}
	return x
}

func (x *indexed) give(at int) {
	for _, s := range x.live[at].shares {
		x.pool.Give(s, x.live[at].prof)
	}
}

func (x *indexed) take(at, i int) {
	h := &x.live[at]
	h.prof = profile(i)
	h.shares = x.pool.Take(scheduler.Demand{
		Profile: h.prof, CoresLeft: h.prof.Cores * x.mode.executors, Wanted: x.mode.executors, SpreadOut: x.mode.spread,
	}, h.shares[:0])
}

func (x *indexed) placed(at int, into []int) []int {
	for _, s := range x.live[at].shares {
		for range s.Executors {
			into = append(into, int(s.Worker.Incarnation))
		}
	}
	return into
}

// scanned decides by looking at every worker: the least that a scheduler
// without an index has to do, over two flat arrays.
type scanned struct {
	mode mode
	free []room
	live []choice
}

type room struct{ cores, memory int32 }

type choice struct {
	workers [packOf]int32
	n       int
	room    room // of each executor
}

func newScanned(ws []*model.Worker, m mode) *scanned {
	x := &scanned{mode: m, live: make([]choice, lasting(ws, m))}
	for _, w := range ws {
		x.free = append(x.free, room{int32(w.Offer.Cores), int32(w.Offer.MemoryMiB)})
	}
	return x
}

func (x *scanned) give(at int) {
	c := &x.live[at]
	for _, w := range c.workers[:c.n] {
		x.free[w].cores += c.room.cores
		x.free[w].memory += c.room.memory
	}
}

// freest is the worker with the most cores, the last of equal ones, that has
// room and is not among those taken.
func (x *scanned) freest(need room, taken []int32) int32 {
	best, most := int32(-1), need.cores
scan:
	for i := range x.free {
		f := &x.free[i]
		if f.cores < most || f.memory < need.memory {
			continue
		}
		for _, w := range taken {
			if w == int32(i) {
				continue scan
			}
		}
		best, most = int32(i), f.cores
	}
	return best
}

func (x *scanned) take(at, i int) {
	p := profile(i)
	c := &x.live[at]
	c.n, c.room = 0, room{int32(p.Cores), int32(p.MemoryMiB)}
	for c.n < x.mode.executors {
		before := c.n
		w := x.freest(c.room, c.workers[:c.n])
		for w >= 0 && c.n < x.mode.executors && x.free[w].cores >= c.room.cores && x.free[w].memory >= c.room.memory {
			x.free[w].cores -= c.room.cores
			x.free[w].memory -= c.room.memory
			c.workers[c.n] = w
			c.n++
			if x.mode.spread {
				break
			}
		}
		if c.n == before {
			return
		}
	}
}

func (x *scanned) placed(at int, into []int) []int {
	for _, w := range x.live[at].workers[:x.live[at].n] {
		into = append(into, int(w))
	}
	return into
}
