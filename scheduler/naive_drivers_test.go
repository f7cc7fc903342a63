package scheduler

import (
	"slices"

	"github.com/hearthd/hearth/model"
)

// naiveDrivers reads spark-standalone 1.E sentence by sentence.
func naiveDrivers(c *cluster, opt Options, kept keptFor) []model.DriverPlacement {
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
			free, memory = max(free-kept.cores[w.ID], min(free, 0)), max(memory-kept.memory[w.ID], min(memory, 0))
			ok := c.schedulable(w) && (opt.WorkerBlocked == nil || !opt.WorkerBlocked(w.ID)) && free >= d.Spec.Cores && memory >= d.Spec.MemoryMiB
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
