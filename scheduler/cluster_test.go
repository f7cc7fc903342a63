package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// cluster is a small state that satisfies View, applies plans, and ends
// executors, so that sequences of passes can be told in a test.
type cluster struct {
	settings model.Settings
	workers  []*model.Worker
	used     map[model.WorkerID]model.Usage
	apps     []*model.App
	running  map[model.AppID][]model.Placement // in order of executor id
	blocked  map[model.AppID]bool

	waiting        []*model.Driver
	placedDrivers  int
	cursor         model.WorkerID
	driverCores    int
	maxDriverCores int

	due      map[model.AppID]bool // gangs that have waited long enough
	excluded map[model.AppID]map[model.WorkerID]bool
}

func newCluster(change ...func(*model.Settings)) *cluster {
	c := &cluster{
		settings: model.DefaultSettings(),
		used:     make(map[model.WorkerID]model.Usage),
		running:  make(map[model.AppID][]model.Placement),
		blocked:  make(map[model.AppID]bool),
		due:      make(map[model.AppID]bool),
		excluded: make(map[model.AppID]map[model.WorkerID]bool),
	}
	for _, f := range change {
		f(&c.settings)
	}
	return c
}

func pack(s *model.Settings) { s.SpreadOutApps = false }

func (c *cluster) Settings() model.Settings { return c.settings }

// schedulable reports whether a worker is in the view: it is ALIVE and offers
// the addresses that are in use there (ADR 0010). Workers that hold more cores or
// memory than they offer are no view's either and stay in, since a pass must
// give them nothing all the same.
func (c *cluster) schedulable(w *model.Worker) bool {
	for name, used := range c.used[w.ID].Resources {
		for _, a := range used {
			if !slices.Contains(w.Offer.Resources[name], a) {
				return false
			}
		}
	}
	return w.State == model.WorkerAlive
}

func (c *cluster) SchedulableWorkers(f func(*model.Worker, model.Usage) bool) {
	for _, w := range c.workers {
		if c.schedulable(w) && !f(w, c.used[w.ID]) {
			return
		}
	}
}

func (c *cluster) ActiveApps(f func(*model.App) bool) {
	for _, a := range c.apps {
		if !a.State.Terminal() && !f(a) {
			return
		}
	}
}

func (c *cluster) SchedulableWorker(id model.WorkerID) (*model.Worker, model.Usage, bool) {
	for _, w := range c.workers {
		if w.ID == id {
			return w, c.used[id], c.schedulable(w)
		}
	}
	return nil, model.Usage{}, false
}

func (c *cluster) ActiveApp(id model.AppID) (*model.App, bool) {
	for _, a := range c.apps {
		if a.ID == id {
			return a, !a.State.Terminal()
		}
	}
	return nil, false
}

func (c *cluster) QueueCores(queue string) int {
	n := 0
	for _, a := range c.apps {
		if a.Spec.QueueName() == queue {
			n += model.CoresCounted(a)
		}
	}
	return n
}

func (c *cluster) UserCores(user string) int {
	n := 0
	for _, a := range c.apps {
		if model.AppUser(a) == user {
			n += model.CoresCounted(a)
		}
	}
	return n
}

func (c *cluster) WaitingDrivers(f func(*model.Driver) bool) {
	for _, d := range c.waiting {
		if !f(d) {
			return
		}
	}
}

func (c *cluster) WaitingDriver(id model.DriverID) (*model.Driver, bool) {
	for _, d := range c.waiting {
		if d.ID == id {
			return d, true
		}
	}
	return nil, false
}

func (c *cluster) PlacedDrivers() int { return c.placedDrivers }

func (c *cluster) DriverCursor() model.WorkerID { return c.cursor }

func (c *cluster) DriverCores() (cores, most int) { return c.driverCores, c.maxDriverCores }

func (c *cluster) DueGangs(f func(*model.App) bool) {
	for _, a := range c.apps {
		if c.due[a.ID] && !c.blocked[a.ID] && !a.State.Terminal() && model.GangNeeds(a) > 0 && !f(a) {
			return
		}
	}
}

func (c *cluster) AppBlocked(app model.AppID) bool { return c.blocked[app] }

func (c *cluster) Excluded(app model.AppID, w model.WorkerID) bool { return c.excluded[app][w] }

// worker adds an ALIVE worker; resources are given as "gpu", 4 for gpu 0-3.
func (c *cluster) worker(id string, cores int, memoryMiB int64, gpus int) {
	w := &model.Worker{
		ID: model.WorkerID(id), Incarnation: uint64(len(c.workers)) + 1, State: model.WorkerAlive,
		Offer: model.Offer{Cores: cores, MemoryMiB: memoryMiB},
	}
	if gpus > 0 {
		var addrs []string
		for i := range gpus {
			addrs = append(addrs, fmt.Sprint(i))
		}
		w.Offer.Resources = model.Resources{"gpu": addrs}
	}
	c.workers = append(c.workers, w)
	slices.SortFunc(c.workers, func(a, b *model.Worker) int { return strings.Compare(string(a.ID), string(b.ID)) })
}

// workers adds n equal workers w1…wn.
func (c *cluster) equalWorkers(n, cores int, memoryMiB int64) {
	for i := range n {
		c.worker(fmt.Sprintf("w%d", i+1), cores, memoryMiB, 0)
	}
}

// app registers an application with an unlimited target.
func (c *cluster) app(id string, coresMax int, prof model.Profile) *model.App {
	a := &model.App{
		ID: model.AppID(id), Number: uint64(len(c.apps)) + 1, State: model.AppWaiting,
		Spec:     model.AppSpec{CoresMax: coresMax, Profile: prof},
		Profiles: map[int]model.Profile{0: prof},
		Targets:  map[int]int{0: model.TargetUnlimited},
		Live:     map[int]int{},
	}
	c.apps = append(c.apps, a)
	return a
}

// exclude keeps an application off a worker.
func (c *cluster) exclude(app model.AppID, w model.WorkerID) {
	if c.excluded[app] == nil {
		c.excluded[app] = make(map[model.WorkerID]bool)
	}
	c.excluded[app][w] = true
	a := c.find(app)
	a.Excluded = append(a.Excluded, model.Exclusion{Worker: w})
}

func (c *cluster) find(app model.AppID) *model.App {
	for _, a := range c.apps {
		if a.ID == app {
			return a
		}
	}
	panic("no app " + app)
}

// apply charges a plan as the replicated state does.
func (c *cluster) apply(plan []model.Placement) {
	for _, p := range plan {
		a := c.find(p.App)
		a.Live[p.Profile]++
		a.CoresGranted += p.Cores
		u := c.used[p.Worker].Clone()
		u.Cores += p.Cores
		u.MemoryMiB += p.MemoryMiB
		u.Executors++
		for name, addrs := range p.Resources {
			if u.Resources == nil {
				u.Resources = model.Resources{}
			}
			u.Resources[name] = append(u.Resources[name], addrs...)
		}
		c.used[p.Worker] = u
		c.running[p.App] = append(c.running[p.App], p)
	}
}

// pass plans and applies, and returns the plan.
func (c *cluster) pass() []model.Placement {
	plan := Plan(c, Options{})
	c.apply(plan)
	return plan
}

// end frees the n oldest executors of an application (-1 = all).
func (c *cluster) end(app string, n int) {
	a := c.find(model.AppID(app))
	all := c.running[a.ID]
	if n < 0 {
		n = len(all)
	}
	for _, p := range all[:n] {
		a.Live[p.Profile]--
		a.CoresGranted -= p.Cores
		u := c.used[p.Worker].Clone()
		u.Cores -= p.Cores
		u.MemoryMiB -= p.MemoryMiB
		u.Executors--
		for name, addrs := range p.Resources {
			u.Resources[name] = slices.DeleteFunc(u.Resources[name], func(s string) bool { return slices.Contains(addrs, s) })
		}
		c.used[p.Worker] = u
	}
	c.running[a.ID] = slices.Clone(all[n:])
}

// show renders a plan as "app/profile worker=cores[gpu addresses] …" without
// the profile when it is the default one.
func show(plan []model.Placement) string {
	var out []string
	for _, p := range plan {
		s := string(p.App)
		if p.Profile != 0 {
			s += fmt.Sprintf("/%d", p.Profile)
		}
		s += fmt.Sprintf(" %s=%d", p.Worker, p.Cores)
		if g := p.Resources["gpu"]; len(g) > 0 {
			s += "[" + strings.Join(g, " ") + "]"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}
