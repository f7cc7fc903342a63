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
}

// step is the number of cores that are handed out at once.
func (d Demand) step() int { return max(d.Profile.Cores, 1) }

// oneEach reports whether all cores on a worker make one executor because the
// profile has no size.
func (d Demand) oneEach() bool { return d.Profile.Cores == 0 }

// AssignCores hands out cores to workers, given in the order in which they are
// tried, and returns the cores assigned to each (spark-standalone 1.F steps 4
// to 6; Spark's Master.scheduleExecutorsOnWorkers). Each worker should be a
// candidate: one executor of the profile fits there.
//
// Cores are handed out in steps of whole executors, so that an application
// with 48 cores and 16 per executor gets three executors on four workers of
// 16, and not four times 12 cores that no executor fits into (SPARK-8881).
func AssignCores(workers []model.Free, d Demand) []int {
	st := newAssignment(workers, d)
	left := make([]int, len(workers))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		for _, i := range left {
			for st.canStep(i) {
				st.take(i)
				if d.SpreadOut {
					break
				}
			}
		}
		kept := left[:0]
		for _, i := range left {
			if st.canStep(i) {
				kept = append(kept, i)
			}
		}
		left = kept
	}
	return st.cores
}

// assignment is the state of one AssignCores.
type assignment struct {
	demand  Demand
	budget  int   // cores that may still be handed out
	started int   // executors of this assignment, over all workers
	cores   []int // assigned, per worker
	execs   []int // started, per worker
	room    []int // free cores, per worker
	// most is how many new executors memory and addresses allow, per worker.
	most []int
}

func newAssignment(workers []model.Free, d Demand) *assignment {
	n := len(workers)
	buf := make([]int, 4*n)
	st := &assignment{
		demand: d,
		cores:  buf[:n:n], execs: buf[n : 2*n : 2*n],
		room: buf[2*n : 3*n : 3*n], most: buf[3*n:],
	}
	for i := range workers {
		st.room[i] = workers[i].Cores
		st.most[i] = mostExecutors(&workers[i], d.Profile)
		// Offers are bounded (model.MaxCores), so the sum cannot overflow.
		st.budget += max(workers[i].Cores, 0)
	}
	st.budget = min(st.budget, d.CoresLeft)
	return st
}

// canStep reports whether worker i can take one more step of cores. A step
// that adds cores to an executor of this pass (no size given) needs no memory,
// no addresses and no place under the target: those were checked when it was
// started.
func (st *assignment) canStep(i int) bool {
	step := st.demand.step()
	if st.budget < step || st.room[i]-st.cores[i] < step {
		return false
	}
	if st.demand.oneEach() && st.execs[i] > 0 {
		return true
	}
	return st.execs[i] < st.most[i] && st.started < st.demand.Wanted-st.demand.Live
}

func (st *assignment) take(i int) {
	step := st.demand.step()
	st.budget -= step
	st.cores[i] += step
	if st.demand.oneEach() && st.execs[i] > 0 {
		return
	}
	st.execs[i]++
	st.started++
}

// mostExecutors counts how many executors of a profile the memory and the
// addresses of a worker hold, whatever its cores: the same bound as asking
// model.Fits again after each one was charged.
func mostExecutors(f *model.Free, p model.Profile) int {
	most := math.MaxInt
	switch {
	case f.MemoryMiB < p.MemoryMiB:
		return 0
	case p.MemoryMiB > 0:
		most = int(f.MemoryMiB / p.MemoryMiB)
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
