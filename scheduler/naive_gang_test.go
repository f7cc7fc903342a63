package scheduler

import (
	"cmp"
	"slices"

	"github.com/hearthd/hearth/model"
)

// naiveKept is what is kept for the oldest gang that is due and that fits into
// all workers if they are empty: on the workers that hold most of it now, then
// have most free cores, then by id, what its executors there need, at most half
// of all cores.
func naiveKept(c *cluster) keptFor {
	if c.settings.GangAfterMilli == 0 {
		return keptFor{}
	}
	for _, a := range c.apps {
		if !c.due[a.ID] || c.blocked[a.ID] || a.State.Terminal() || model.GangNeeds(a) == 0 {
			continue
		}
		need, prof := model.GangNeeds(a), a.Profiles[0]
		fit := func(cores int, memory int64, addrs func(string) int) int {
			n := 0
			for {
				ok := cores >= max(prof.Cores, 1)*(n+1) && memory >= prof.MemoryMiB*int64(n+1)
				for name, each := range prof.Resources {
					ok = ok && addrs(name) >= each*(n+1)
				}
				if !ok || prof.Cores == 0 && n == 1 {
					return n
				}
				n++
			}
		}
		type site struct {
			w          *model.Worker
			cores      int
			memory     int64
			now, whole int
		}
		var sites []site
		total, whole := 0, 0
		for _, w := range c.workers {
			if !c.schedulable(w) {
				continue
			}
			total += w.Offer.Cores
			if c.excluded[a.ID][w.ID] || !model.HasLabels(w, a.Spec.Require) {
				continue
			}
			cores, memory, addrs := naiveFree(c, w, nil)
			s := site{
				w: w, cores: cores, memory: memory, now: fit(cores, memory, func(n string) int { return len(addrs[n]) }),
				whole: fit(w.Offer.Cores, w.Offer.MemoryMiB, func(n string) int { return len(w.Offer.Resources[n]) }),
			}
			if s.whole > 0 {
				sites = append(sites, s)
				whole += s.whole
			}
		}
		if whole < need {
			continue
		}
		slices.SortStableFunc(sites, func(x, y site) int { return cmp.Or(y.now-x.now, y.cores-x.cores) })
		k := keptFor{app: a.ID, cores: map[model.WorkerID]int{}, memory: map[model.WorkerID]int64{}}
		left := total / 2
		for _, s := range sites {
			n := min(s.whole, need)
			if n <= 0 || left <= 0 {
				break
			}
			need -= n
			if cores := min(s.cores, n*max(prof.Cores, 1), left); cores > 0 {
				k.cores[s.w.ID], k.memory[s.w.ID] = cores, max(min(s.memory, int64(n)*prof.MemoryMiB), 0)
				left -= cores
			}
		}
		return k
	}
	return keptFor{}
}
