package scheduler

import (
	"math"

	"github.com/hearthd/hearth/model"
)

// Demand is what one profile of one application asks of a pass.
type Demand struct {
	Profile model.Profile
	// CoresLeft is how many more cores the application may hold over all its
	// profiles; math.MaxInt = no limit.
	CoresLeft int
	// Wanted bounds the live executors of the profile, those of this pass
	// included; math.MaxInt = no limit.
	Wanted int
	// Live is how many executors of the profile are live already.
	Live int
	// SpreadOut gives each worker one step per round; otherwise a worker is
	// filled before the next one gets anything.
	SpreadOut bool
	// Require are labels that a worker must have; nil = none.
	Require map[string]string
	// Prefer are labels that put a worker before others which the policy calls
	// equal, the more of them the sooner; nil = none.
	Prefer map[string]string
}

// step is the number of cores that are handed out at once.
func (d *Demand) step() int { return max(d.Profile.Cores, 1) }

// oneEach reports whether all cores on a worker make one executor because the
// profile has no size.
func (d *Demand) oneEach() bool { return d.Profile.Cores == 0 }

// AssignCores hands out cores to workers, given in the order in which they are
// tried, and returns the cores assigned to each (spark-standalone 1.F steps 4
// to 6; Spark's Master.scheduleExecutorsOnWorkers). Each worker should be a
// candidate: one executor of the profile fits there.
//
// Cores are handed out in steps of whole executors, so that an application
// with 48 cores and 16 per executor gets three executors on four workers of
// 16, and not four times 12 cores that no executor fits into (SPARK-8881).
func AssignCores(workers []model.Free, d Demand) []int {
	a := newAssignment(&d, math.MaxInt)
	for i := range workers {
		if !a.offer(int32(i), &workers[i]) {
			break
		}
	}
	a.finish()
	cores := make([]int, len(workers))
	for _, s := range a.shares {
		cores[s.ref] = s.steps * d.step()
	}
	return cores
}

// share is what one worker gets of an assignment.
type share struct {
	ref   int32 // which worker
	steps int   // of Demand.step cores each
	most  int   // steps that it could take by itself
}

// assignment hands out steps of cores to workers that are offered one by one,
// in order, until nobody further along could get anything. So an application
// that wants little looks at few workers. Spark's budget is also bounded by
// the free cores of all candidates together; that bound never binds, because
// each worker is asked for its own.
type assignment struct {
	demand Demand
	steps  int // that may still be handed out
	starts int // executors that may still be started
	// bound is the most executors of the plan; cut says that more were wanted.
	bound int
	cut   bool

	started int // executors, over all workers
	shares  []share
	equals  []preferred // scratch: workers that the policy calls equal
	active  []int32     // scratch of finish
}

func newAssignment(d *Demand, bound int) assignment {
	a := assignment{}
	a.reset(d, bound)
	return a
}

// reset begins a new assignment with the memory of an old one.
func (a *assignment) reset(d *Demand, bound int) {
	steps := d.CoresLeft
	if d.Profile.Cores > 1 {
		steps /= d.Profile.Cores
	}
	*a = assignment{
		demand: *d, steps: max(steps, 0), starts: max(d.Wanted-d.Live, 0), bound: bound,
		shares: a.shares[:0], active: a.active[:0], equals: a.equals[:0],
	}
	if !d.oneEach() { // each step is an executor
		a.steps = min(a.steps, a.starts)
	}
}

// open reports whether another worker could get something.
func (a *assignment) open() bool { return a.steps > 0 && a.starts > 0 && !a.cut }

// offer gives the next worker, which must be a candidate, its first step, or
// fills it when consolidating. It reports whether to go on.
func (a *assignment) offer(ref int32, f *model.Free) bool {
	if !a.open() {
		return false
	}
	s := share{ref: ref, steps: 1, most: mostSteps(f, &a.demand)}
	if s.most == 0 {
		return true
	}
	if !a.demand.SpreadOut {
		s.steps = min(s.most, a.steps)
		if a.started > 0 && a.started+a.executors(s.steps) > a.bound {
			a.cut = true
			return false
		}
	}
	a.steps -= s.steps
	a.starts -= a.executors(s.steps)
	a.started += a.executors(s.steps)
	a.shares = append(a.shares, s)
	return a.open()
}

// executors is how many executors the steps of one worker make.
func (a *assignment) executors(steps int) int {
	if a.demand.oneEach() {
		return min(steps, 1)
	}
	return steps
}

// finish hands out what is left in rounds over the workers that have a first
// step, as many rounds at once as leave nobody full. A step that adds cores to
// an executor of this pass (no size given) needs no memory, no addresses and
// no place under the target: those were checked when it was started.
//
// A plan that is bounded ends after a whole round, so that a later pass goes
// on where this one has stopped and the outcome is that of a single one.
func (a *assignment) finish() {
	if !a.demand.SpreadOut || a.steps == 0 {
		return
	}
	a.active = a.active[:0]
	for i := range a.shares {
		if a.shares[i].steps < a.shares[i].most {
			a.active = append(a.active, int32(i))
		}
	}
	for a.steps > 0 && len(a.active) > 0 && !a.cut {
		a.round()
	}
}

// round gives each active worker the same number of steps, or the first ones
// the last few.
func (a *assignment) round() {
	n := len(a.active)
	rounds, takers := a.steps/n, n
	if rounds == 0 {
		rounds, takers = 1, a.steps
	}
	for _, i := range a.active {
		rounds = min(rounds, a.shares[i].most-a.shares[i].steps)
	}
	if !a.demand.oneEach() && rounds*takers > a.bound-a.started {
		a.cut = true
		if rounds = (a.bound - a.started) / takers; rounds <= 0 {
			return
		}
	}
	kept := a.active[:0]
	for at, i := range a.active {
		s := &a.shares[i]
		if at < takers {
			s.steps += rounds
		}
		if s.steps < s.most {
			kept = append(kept, i)
		}
	}
	a.steps -= rounds * takers
	if !a.demand.oneEach() {
		a.starts -= rounds * takers
		a.started += rounds * takers
	}
	a.active = kept
}

// mostSteps counts how many steps of cores a worker can take.
func mostSteps(f *model.Free, d *Demand) int {
	execs := mostExecutors(f, &d.Profile)
	switch {
	case execs == 0 || f.Cores < 1:
		return 0
	case d.oneEach():
		return f.Cores
	}
	return min(f.Cores/d.Profile.Cores, execs)
}

// mostExecutors counts how many executors of a profile the memory and the
// addresses of a worker hold, whatever its cores: the same bound as asking
// model.Fits again after each one was charged.
func mostExecutors(f *model.Free, p *model.Profile) int {
	most := math.MaxInt
	switch {
	case f.MemoryMiB < p.MemoryMiB:
		return 0
	case p.MemoryMiB > 0:
		most = int(f.MemoryMiB / p.MemoryMiB)
	}
	if len(p.Resources) == 0 {
		return most
	}
	for name, n := range p.Resources {
		have := f.FreeAddresses(name)
		if have < n {
			return 0
		}
		if n > 0 {
			most = min(most, have/n)
		}
	}
	return most
}
