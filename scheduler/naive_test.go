package scheduler

import (
	"fmt"
	"math"
	"slices"

	"github.com/hearthd/hearth/model"
)

// naivePlan is a second reading of spark-standalone 1.F and of ADR 0033,
// sentence by sentence, that shares nothing with the real one but the words of
// model: it asks every question anew at each step and keeps no books but the
// plan itself.
func naivePlan(c *cluster, opt Options) []model.Placement {
	n := &naive{c: c, opt: opt, promised: map[string][]model.Placement{}, done: map[naiveTurn]bool{}}
	n.taken = driversAsPlan(c, naiveDrivers(c, opt, naiveKept(c)))
	n.kept = naiveKept(c)
	for n.turn() {
	}
	return n.plan
}

// naive is a pass in progress.
type naive struct {
	c        *cluster
	opt      Options
	taken    []model.Placement // by drivers
	plan     []model.Placement
	kept     keptFor
	gangs    uint32
	promised map[string][]model.Placement // by queue: to the first in it
	done     map[naiveTurn]bool
}

// naiveTurn is one profile of one application.
type naiveTurn struct {
	app     *model.App
	profile int
}

// keptFor is what others may not have because a gang has waited too long.
type keptFor struct {
	app    model.AppID
	cores  map[model.WorkerID]int
	memory map[model.WorkerID]int64
}

// all is what has been taken so far.
func (n *naive) all() []model.Placement { return append(slices.Clone(n.taken), n.plan...) }

func (n *naive) queueOf(a *model.App) string {
	if len(n.c.settings.Queues) == 0 {
		return ""
	}
	return a.Spec.QueueName()
}

// held are the cores of those that is says, of the view and the plan.
func (n *naive) held(is func(*model.App) bool) int {
	sum := 0
	for _, a := range n.c.apps {
		if is(a) {
			sum += a.CoresGranted
		}
	}
	for _, p := range n.plan {
		if is(n.c.find(p.App)) {
			sum += p.Cores
		}
	}
	return sum
}

// turn lets the queue whose turn it is have one executor, or a gang. It reports
// false when nobody can get anything any more.
func (n *naive) turn() bool {
	first := map[string]naiveTurn{} // by queue
	for _, a := range n.c.apps {
		if a.State.Terminal() || n.c.blocked[a.ID] {
			continue
		}
		var ids []int
		for id := range a.Profiles {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if _, found := first[n.queueOf(a)]; !found && !n.done[naiveTurn{a, id}] {
				first[n.queueOf(a)] = naiveTurn{a, id}
			}
		}
	}
	best, found := "", false
	for name := range first {
		if !found || n.before(name, best) {
			best, found = name, true
		}
	}
	if !found {
		return false
	}
	if !n.serve(best, first[best]) {
		n.done[first[best]] = true
	}
	return true
}

// before says which of two queues is served first.
func (n *naive) before(x, y string) bool {
	qx, qy := n.c.settings.Queue(x), n.c.settings.Queue(y)
	if qx.Priority != qy.Priority {
		return qx.Priority > qy.Priority
	}
	share := func(q model.Queue) float64 {
		return float64(n.held(func(a *model.App) bool { return n.queueOf(a) == q.Name })) / float64(q.Weight)
	}
	if sx, sy := share(qx), share(qy); sx != sy {
		return sx < sy
	}
	return x < y
}

// serve places the next executor, or a gang.
func (n *naive) serve(queue string, t naiveTurn) bool {
	for len(n.promised[queue]) > 0 {
		p := n.promised[queue][0]
		n.promised[queue] = n.promised[queue][1:]
		if n.place(t, p) {
			return true
		}
		// The rest of what was promised on that worker is given up with it.
		for len(n.promised[queue]) > 0 && n.promised[queue][0].Worker == p.Worker {
			n.promised[queue] = n.promised[queue][1:]
		}
	}
	live := t.app.Live[t.profile]
	for _, p := range n.plan {
		if p.App == t.app.ID && p.Profile == t.profile {
			live++
		}
	}
	need := 0
	if t.profile == 0 && t.app.Spec.MinExecutors > 1 {
		want := t.app.Spec.MinExecutors
		if target := t.app.Targets[0]; target >= 0 {
			want = min(want, target)
		}
		need = max(want-live, 0)
	}
	kept := n.kept
	if need > 0 && kept.app == t.app.ID {
		n.kept = keptFor{app: kept.app}
	}
	defer func() { n.kept = kept }()
	out := n.profile(t, live)
	if len(out) == 0 || len(out) < need {
		return false
	}
	if need > 0 {
		n.gangs++
	}
	for i, p := range out[:max(need, 1)] {
		if need > 0 {
			p.Gang = n.gangs
		}
		if !n.place(t, p) {
			panic(fmt.Sprintf("executor %d of what was just found has no room", i))
		}
	}
	n.promised[queue] = out[max(need, 1):]
	return true
}

// place places one executor if there is room for it.
func (n *naive) place(t naiveTurn, p model.Placement) bool {
	w := n.worker(p.Worker)
	cores, memory, addrs := n.free(w)
	prof := t.app.Profiles[t.profile]
	if p.Cores > cores || p.MemoryMiB > memory || p.Cores > n.coresLeft(t.app) {
		return false
	}
	p.Resources = nil
	for name, need := range prof.Resources {
		if len(addrs[name]) < need {
			return false
		}
		if p.Resources == nil {
			p.Resources = model.Resources{}
		}
		if need > 0 {
			p.Resources[name] = addrs[name][:need]
		}
	}
	n.plan = append(n.plan, p)
	return true
}

func (n *naive) worker(id model.WorkerID) *model.Worker {
	return n.c.workers[slices.IndexFunc(n.c.workers, func(w *model.Worker) bool { return w.ID == id })]
}

// free is what others than a gang for which some of it is kept may have.
func (n *naive) free(w *model.Worker) (cores int, memory int64, addrs map[string][]string) {
	cores, memory, addrs = naiveFree(n.c, w, n.all())
	return max(cores-n.kept.cores[w.ID], min(cores, 0)), max(memory-n.kept.memory[w.ID], min(memory, 0)), addrs
}

// coresLeft is the least of what the application, its queue and its user may
// still have.
func (n *naive) coresLeft(a *model.App) int {
	left := naiveCoresLeft(n.c, a, n.plan)
	if limit := n.c.settings.Queue(a.Spec.QueueName()).CapCores; limit > 0 && len(n.c.settings.Queues) > 0 {
		left = min(left, limit-n.held(func(x *model.App) bool { return x.Spec.QueueName() == a.Spec.QueueName() }))
	}
	if limit := n.c.settings.UserCores; limit > 0 {
		left = min(left, limit-n.held(func(x *model.App) bool { return x.Spec.User == a.Spec.User }))
	}
	return left
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

// profile is what one profile of one application gets of everything that is
// free, executor by executor.
func (n *naive) profile(t naiveTurn, live int) []model.Placement {
	c, a, id := n.c, t.app, t.profile
	prof := a.Profiles[id]
	size := prof.Cores
	e := size
	if size == 0 {
		e = 1
	}
	left := n.coresLeft(a)
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
		if !c.schedulable(w) || c.excluded[a.ID][w.ID] || (n.opt.WorkerBlocked != nil && n.opt.WorkerBlocked(w.ID)) {
			continue
		}
		cores, memory, addrs := n.free(w)
		ok := cores >= e && memory >= prof.MemoryMiB
		for name, n := range prof.Resources {
			ok = ok && len(addrs[name]) >= n
		}
		for label, value := range a.Spec.Require {
			have, labelled := w.Offer.Labels[label]
			ok = ok && labelled && have == value
		}
		if ok {
			workers = append(workers, w)
			budget += cores
		}
	}
	n.sort(workers, a.Spec.Prefer)
	budget = min(budget, left)

	cores := map[model.WorkerID]int{}
	execs := map[model.WorkerID]int{}
	can := func(w *model.Worker) bool {
		free, memory, addrs := n.free(w)
		if budget < e || free-cores[w.ID] < e {
			return false
		}
		if size == 0 && execs[w.ID] > 0 {
			return true
		}
		all := live
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
			p := model.Placement{
				App: a.ID, Profile: id, Worker: w.ID, Incarnation: w.Incarnation,
				Cores: cores[w.ID] / execs[w.ID], MemoryMiB: prof.MemoryMiB,
			}
			out = append(out, p)
		}
	}
	return out
}

// sort sorts by what the policy names, upwards or downwards, then by preferred
// labels, then by id in the same direction as the policy.
func (n *naive) sort(workers []*model.Worker, prefer map[string]string) {
	key := func(w *model.Worker) int64 {
		cores, memory, _ := n.free(w)
		switch n.c.settings.WorkerSelectionPolicy {
		case model.CoresFreeDesc, model.CoresFreeAsc:
			return int64(cores)
		case model.MemoryFreeDesc, model.MemoryFreeAsc:
			return memory
		case model.ByWorkerID:
		}
		return 0
	}
	down := n.c.settings.WorkerSelectionPolicy == model.CoresFreeDesc || n.c.settings.WorkerSelectionPolicy == model.MemoryFreeDesc
	before := func(x, y *model.Worker) bool {
		if key(x) != key(y) {
			return (key(x) < key(y)) != down
		}
		if lx, ly := model.CountLabels(x, prefer), model.CountLabels(y, prefer); lx != ly {
			return lx > ly
		}
		return (x.ID < y.ID) != down
	}
	for i := range workers { // selection sort
		for j := i + 1; j < len(workers); j++ {
			if before(workers[j], workers[i]) {
				workers[i], workers[j] = workers[j], workers[i]
			}
		}
	}
}
