package scheduler

import (
	"math"
	"slices"

	"github.com/hearthd/hearth/model"
)

// naivePlan is a second reading of spark-standalone 1.F, sentence by sentence,
// that shares nothing with the real one but the words of model: it asks every
// question anew at each step and keeps no books but the plan itself.
func naivePlan(c *cluster, opt Options) []model.Placement {
	var plan []model.Placement
	for _, a := range c.apps {
		if a.State.Terminal() || c.blocked[a.ID] {
			continue
		}
		ids := make([]int, 0, len(a.Profiles))
		for id := range a.Profiles {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			plan = append(plan, naiveProfile(c, opt, a, id, plan)...)
		}
	}
	return plan
}

// naiveFree is what a worker has free beside its usage and the plan so far.
func naiveFree(c *cluster, w *model.Worker, plan []model.Placement) (cores int, memory int64, addrs map[string][]string) {
	u := c.used[w.ID]
	cores, memory = w.Offer.Cores-u.Cores, w.Offer.MemoryMiB-u.MemoryMiB
	taken := u.Resources.Clone()
	if taken == nil {
		taken = model.Resources{}
	}
	for _, p := range plan {
		if p.Worker != w.ID {
			continue
		}
		cores -= p.Cores
		memory -= p.MemoryMiB
		for name, got := range p.Resources {
			taken[name] = append(taken[name], got...)
		}
	}
	addrs = map[string][]string{}
	for name, all := range w.Offer.Resources {
		for _, a := range all {
			if !slices.Contains(taken[name], a) {
				addrs[name] = append(addrs[name], a)
			}
		}
	}
	return cores, memory, addrs
}

func naiveCoresLeft(c *cluster, a *model.App, plan []model.Placement) int {
	left := math.MaxInt32
	if c.settings.DefaultCores > 0 {
		left = c.settings.DefaultCores
	}
	if a.Spec.CoresMax > 0 {
		left = a.Spec.CoresMax
	}
	left -= a.CoresGranted
	for _, p := range plan {
		if p.App == a.ID {
			left -= p.Cores
		}
	}
	return left
}

func naiveProfile(c *cluster, opt Options, a *model.App, id int, plan []model.Placement) []model.Placement {
	prof := a.Profiles[id]
	size := prof.Cores
	e := size
	if size == 0 {
		e = 1
	}
	left := naiveCoresLeft(c, a, plan)
	if left < e {
		return nil
	}
	target := math.MaxInt32
	if t := a.Targets[id]; t >= 0 {
		target = t
	}

	var workers []*model.Worker
	budget := 0
	for _, w := range c.workers {
		if w.State != model.WorkerAlive || c.excluded[a.ID][w.ID] || (opt.WorkerBlocked != nil && opt.WorkerBlocked(w.ID)) {
			continue
		}
		cores, memory, addrs := naiveFree(c, w, plan)
		ok := cores >= e && memory >= prof.MemoryMiB
		for name, n := range prof.Resources {
			ok = ok && len(addrs[name]) >= n
		}
		if ok {
			workers = append(workers, w)
			budget += cores
		}
	}
	naiveSort(c, workers, plan)
	budget = min(budget, left)

	cores := map[model.WorkerID]int{}
	execs := map[model.WorkerID]int{}
	can := func(w *model.Worker) bool {
		free, memory, addrs := naiveFree(c, w, plan)
		if budget < e || free-cores[w.ID] < e {
			return false
		}
		if size == 0 && execs[w.ID] > 0 {
			return true
		}
		all := a.Live[id]
		for _, n := range execs {
			all += n
		}
		ok := memory-int64(execs[w.ID])*prof.MemoryMiB >= prof.MemoryMiB && all < target
		for name, n := range prof.Resources {
			ok = ok && len(addrs[name])-execs[w.ID]*n >= n
		}
		return ok
	}
	for slices.ContainsFunc(workers, can) {
		for _, w := range workers {
			for can(w) {
				budget -= e
				cores[w.ID] += e
				if size == 0 {
					execs[w.ID] = 1
				} else {
					execs[w.ID]++
				}
				if c.settings.SpreadOutApps {
					break
				}
			}
		}
	}

	var out []model.Placement
	for _, w := range workers {
		for n := execs[w.ID]; n > 0; n-- {
			_, _, addrs := naiveFree(c, w, append(slices.Clone(plan), out...))
			p := model.Placement{
				App: a.ID, Profile: id, Worker: w.ID, Incarnation: w.Incarnation,
				Cores: cores[w.ID] / execs[w.ID], MemoryMiB: prof.MemoryMiB,
			}
			for name, need := range prof.Resources {
				if p.Resources == nil {
					p.Resources = model.Resources{}
				}
				if need > 0 {
					p.Resources[name] = addrs[name][:need]
				}
			}
			out = append(out, p)
		}
	}
	return out
}

// naiveSort sorts ascending by what the policy names, then id, and reverses
// for the descending ones.
func naiveSort(c *cluster, workers []*model.Worker, plan []model.Placement) {
	key := func(w *model.Worker) int64 {
		cores, memory, _ := naiveFree(c, w, plan)
		switch c.settings.WorkerSelectionPolicy {
		case model.CoresFreeDesc, model.CoresFreeAsc:
			return int64(cores)
		case model.MemoryFreeDesc, model.MemoryFreeAsc:
			return memory
		case model.ByWorkerID:
		}
		return 0
	}
	for i := range workers { // selection sort
		for j := i + 1; j < len(workers); j++ {
			ki, kj := key(workers[i]), key(workers[j])
			if kj < ki || (kj == ki && workers[j].ID < workers[i].ID) {
				workers[i], workers[j] = workers[j], workers[i]
			}
		}
	}
	switch c.settings.WorkerSelectionPolicy {
	case model.CoresFreeDesc, model.MemoryFreeDesc:
		slices.Reverse(workers)
	case model.CoresFreeAsc, model.MemoryFreeAsc, model.ByWorkerID:
	}
}

// naiveDrivers reads spark-standalone 1.E sentence by sentence.
func naiveDrivers(c *cluster, opt Options) []model.DriverPlacement {
	var out []model.DriverPlacement
	last, cores := c.cursor, c.driverCores
	for _, d := range c.waiting {
		if c.settings.MaxDrivers > 0 && c.placedDrivers+len(out) >= c.settings.MaxDrivers {
			continue
		}
		if c.settings.DriverShareMilli > 0 && cores+d.Spec.Cores > c.maxDriverCores {
			continue
		}
		var order, wrapped []*model.Worker
		for _, w := range c.workers { // by id
			if !c.settings.SpreadOutDrivers || w.ID > last {
				order = append(order, w)
			} else {
				wrapped = append(wrapped, w)
			}
		}
		for _, w := range append(order, wrapped...) {
			free, memory, addrs := naiveFree(c, w, driversAsPlan(c, out))
			ok := w.State == model.WorkerAlive && (opt.WorkerBlocked == nil || !opt.WorkerBlocked(w.ID)) && free >= d.Spec.Cores && memory >= d.Spec.MemoryMiB
			p := model.DriverPlacement{Driver: d.ID, Worker: w.ID, Incarnation: w.Incarnation}
			for name, n := range d.Spec.Resources {
				if ok = ok && len(addrs[name]) >= n; ok {
					p.Resources = model.Resources{name: addrs[name][:n]}
				}
			}
			if ok {
				out = append(out, p)
				last, cores = w.ID, cores+d.Spec.Cores
				break
			}
		}
	}
	return out
}

// driversAsPlan is what drivers take, as placements of nobody.
func driversAsPlan(c *cluster, placed []model.DriverPlacement) []model.Placement {
	var out []model.Placement
	for _, p := range placed {
		d := c.waiting[slices.IndexFunc(c.waiting, func(d *model.Driver) bool { return d.ID == p.Driver })]
		out = append(out, model.Placement{Worker: p.Worker, Cores: d.Spec.Cores, MemoryMiB: d.Spec.MemoryMiB, Resources: p.Resources})
	}
	return out
}
