package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// need is what one executor or driver asks of a worker.
type need struct {
	cores     int // at least 1: without a size the first core starts an executor
	memoryMiB int64
	resources map[string]int
	require   map[string]string // labels with their values
	gang      int               // how many at once; 0 and 1 = any number
	oneEach   bool              // without a size: one on each worker
	what      string            // "executor" or "driver"
}

func needOf(a *model.App, w *want) need {
	n := need{
		cores: max(w.size.Cores, 1), memoryMiB: w.size.MemoryMiB, resources: w.size.Resources,
		require: a.Spec.Require, what: "executor", oneEach: w.size.Cores == 0,
	}
	if w.profile == model.ProfileDefault {
		n.gang = model.GangNeeds(a)
	}
	return n
}

func needOfDriver(d *model.Driver) need {
	return need{cores: max(d.Spec.Cores, 1), memoryMiB: d.Spec.MemoryMiB, resources: d.Spec.Resources, what: "driver"}
}

// names lists the resources that are needed, cores and memory first.
func (n *need) names() []string {
	return append([]string{model.ResourceCores, model.ResourceMemory}, slices.Sorted(maps.Keys(n.resources))...)
}

func (n *need) amount(resource string) int64 {
	switch resource {
	case model.ResourceCores:
		return int64(n.cores)
	case model.ResourceMemory:
		return n.memoryMiB
	}
	return int64(n.resources[resource])
}

func (n *need) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d/%d/%d/%t", n.what, n.cores, n.memoryMiB, n.gang, n.oneEach)
	for _, name := range slices.Sorted(maps.Keys(n.resources)) {
		fmt.Fprintf(&b, "/%q=%d", name, n.resources[name])
	}
	for _, name := range slices.Sorted(maps.Keys(n.require)) {
		fmt.Fprintf(&b, "/%q:%q", name, n.require[name])
	}
	return b.String()
}

func amountOf(f model.Free, resource string) int64 {
	switch resource {
	case model.ResourceCores:
		return int64(f.Cores)
	case model.ResourceMemory:
		return f.MemoryMiB
	}
	return int64(f.FreeAddresses(resource))
}

// whole is what a worker has when nothing is in use.
func (w *worker) whole() model.Free { return model.FreeOf(w.rec.Offer, model.Usage{}) }

// times is how often a need fits into what is free, as the scheduler counts it:
// without a size one executor takes all the cores of a worker.
func (n *need) times(f model.Free) int {
	if !n.fits(f) {
		return 0
	}
	if n.oneEach {
		return 1
	}
	most := f.Cores / n.cores
	if n.memoryMiB > 0 {
		most = min(most, int(f.MemoryMiB/n.memoryMiB))
	}
	for name, k := range n.resources {
		if k > 0 {
			most = min(most, f.FreeAddresses(name)/k)
		}
	}
	return most
}

func (n *need) fits(f model.Free) bool { return model.Fits(f, n.cores, n.memoryMiB, n.resources) }

// fitting says which workers could ever hold a need, and what that comes to
// for everybody who keeps off none of them.
type fitting struct {
	need need
	// labelled counts the workers that have the labels; ever are those of them
	// whose offer is large enough, as ascending positions in Explainer.workers.
	labelled int
	ever     []int

	judged  bool
	room    bool
	reasons []model.WhyReason
}

// fit looks through the workers once for each size.
func (x *Explainer) fit(n need) *fitting {
	key := n.key()
	if f := x.sizes[key]; f != nil {
		return f
	}
	f := &fitting{need: n}
	for i := range x.workers {
		if !model.HasLabels(x.workers[i].rec, n.require) {
			continue
		}
		f.labelled++
		if n.fits(x.workers[i].whole()) {
			f.ever = append(f.ever, i)
		}
	}
	x.sizes[key] = f
	return f
}

// tooLarge says why no worker could hold a need even if it were idle: for each
// resource of which nobody offers enough, or else that nobody has all at once.
func (x *Explainer) tooLarge(f *fitting) []model.WhyReason {
	var out []model.WhyReason
	n, which := &f.need, ""
	if len(n.require) > 0 {
		which = " with its labels"
	}
	for _, name := range n.names() {
		var most int64
		var at []model.WorkerID
		for i := range x.workers {
			if !model.HasLabels(x.workers[i].rec, n.require) {
				continue
			}
			have := amountOf(x.workers[i].whole(), name)
			if have > most {
				most, at = have, nil
			}
			if have == most && len(at) < maxNamed {
				at = append(at, x.workers[i].rec.ID)
			}
		}
		if want := n.amount(name); most < want {
			out = append(out, model.WhyReason{
				Code: model.WhyNeverFits, Never: true, Resource: name, Need: want, Have: most, Missing: want - most,
				Workers: f.labelled, WorkerIDs: at, Text: textTooLarge(n.what, which, name, want, most),
			})
		}
	}
	if len(out) > 0 {
		return out
	}
	return []model.WhyReason{{
		Code: model.WhyNeverFits, Never: true, Workers: f.labelled,
		Text: fmt.Sprintf("no worker%s offers what one %s needs together: %s", which, n.what, textNeed(n)),
	}}
}

// short is a resource of which too little is free.
type short struct {
	resource   string
	need, have int64
	at         []int // positions of the workers
}

// shortages lists, for workers of which none has room, what is missing where:
// what is missing on most workers first.
func (x *Explainer) shortages(n *need, at []int) []short {
	var out []short
	for _, name := range n.names() {
		s := short{resource: name, need: n.amount(name)}
		for _, i := range at {
			if have := amountOf(x.workers[i].free, name); have < s.need {
				s.have = max(s.have, have)
				s.at = append(s.at, i)
			}
		}
		if len(s.at) > 0 {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b short) int { return len(b.at) - len(a.at) })
	return out
}

// named returns the ids of the first few workers.
func (x *Explainer) named(at []int) []model.WorkerID {
	out := make([]model.WorkerID, 0, min(len(at), maxNamed))
	for _, i := range at {
		if len(out) == maxNamed {
			break
		}
		out = append(out, x.workers[i].rec.ID)
	}
	return out
}
