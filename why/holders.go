package why

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// holding is what one application or driver has on one worker.
type holding struct {
	id   string
	free model.Free // with what is held as free amounts, addresses in Offered
}

// holdings reads who holds what, once.
func (x *Explainer) holdings() map[model.WorkerID][]holding {
	if x.held != nil {
		return x.held
	}
	x.held = make(map[model.WorkerID][]holding)
	x.v.HoldingExecutors(func(e *model.Executor) bool {
		x.held[e.Worker] = append(x.held[e.Worker], holding{
			id: string(e.App), free: model.Free{Cores: e.Cores, MemoryMiB: e.MemoryMiB, Offered: e.Resources},
		})
		return true
	})
	return x.held
}

// holders lists who holds most of a resource on some workers, with the share
// of what those offer, and how many others there are.
func (x *Explainer) holders(resource string, at []int) (list []model.WhyHolder, more int) {
	sums := make(map[string]int64)
	var offered int64
	for _, i := range at {
		w := &x.workers[i]
		offered += amountOf(w.whole(), resource)
		for _, h := range x.holdings()[w.rec.ID] {
			if n := amountOf(h.free, resource); n > 0 {
				sums[h.id] += n
			}
		}
	}
	for id, n := range sums {
		h := model.WhyHolder{ID: id, Amount: n}
		if offered > 0 {
			h.Percent = int(100 * n / offered)
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b model.WhyHolder) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.ID, b.ID))
	})
	if len(list) > maxNamed {
		list, more = list[:maxNamed], len(list)-maxNamed
	}
	for i := range list {
		if a, ok := x.v.App(model.AppID(list[i].ID)); ok {
			list[i].Name, list[i].User = a.Spec.Name, a.Spec.User
		} else if d, ok := x.v.Driver(model.DriverID(list[i].ID)); ok {
			list[i].Name, list[i].User = d.Spec.Name, d.Spec.User
		}
	}
	return list, more
}
