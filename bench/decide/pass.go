package decide

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthd/hearth/bench"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/scheduler"
)

// batch is how many applications come and go between two passes.
const batch = 64

// cluster is a view in memory: what a pass of the leader reads, without the
// replicated state behind it.
type cluster struct {
	workers []*model.Worker
	at      map[model.WorkerID]int
	used    []model.Usage
	apps    map[model.AppID]*model.App
	holds   map[model.AppID]model.Placement
	next    uint64
	oldest  uint64
}

func newCluster(ws []*model.Worker) *cluster {
	c := &cluster{
		workers: ws, used: make([]model.Usage, len(ws)), at: make(map[model.WorkerID]int, len(ws)),
		apps: make(map[model.AppID]*model.App), holds: make(map[model.AppID]model.Placement),
	}
	for i, w := range ws {
		c.at[w.ID] = i
	}
	return c
}

func (c *cluster) Settings() model.Settings { return model.DefaultSettings() }

func (c *cluster) SchedulableWorkers(f func(*model.Worker, model.Usage) bool) {
	for i, w := range c.workers {
		if !f(w, c.used[i]) {
			return
		}
	}
}

func (c *cluster) SchedulableWorker(id model.WorkerID) (*model.Worker, model.Usage, bool) {
	i, ok := c.at[id]
	if !ok {
		return nil, model.Usage{}, false
	}
	return c.workers[i], c.used[i], true
}

// ActiveApps visits none: the index reads everything before there are any.
func (c *cluster) ActiveApps(func(*model.App) bool) {}

func (c *cluster) ActiveApp(id model.AppID) (*model.App, bool) {
	a, ok := c.apps[id]
	return a, ok
}

func (c *cluster) AppBlocked(model.AppID) bool { return false }

func (c *cluster) Excluded(model.AppID, model.WorkerID) bool { return false }

func (c *cluster) QueueCores(string) int { return 0 }

func (c *cluster) UserCores(string) int { return 0 }

func (c *cluster) DueGangs(func(*model.App) bool) {}

func (c *cluster) WaitingDrivers(func(*model.Driver) bool) {}

func (c *cluster) WaitingDriver(model.DriverID) (*model.Driver, bool) { return nil, false }

func (c *cluster) PlacedDrivers() int { return 0 }

func (c *cluster) DriverCursor() model.WorkerID { return "" }

func (c *cluster) DriverCores() (int, int) { return 0, 0 }

func appID(n uint64) model.AppID { return model.AppID(fmt.Sprintf("app-%010d", n)) }

// submit registers an application of one executor.
func (c *cluster) submit() model.AppID {
	c.next++
	a := &model.App{
		ID: appID(c.next), Number: c.next, State: model.AppWaiting,
		Profiles: map[int]model.Profile{0: profile(int(c.next))},
		Targets:  map[int]int{0: 1}, Live: map[int]int{},
	}
	c.apps[a.ID] = a
	return a.ID
}

// end ends the oldest application and names the worker that it was on.
func (c *cluster) end() (model.AppID, model.WorkerID) {
	c.oldest++
	id := appID(c.oldest)
	p := c.holds[id]
	u := &c.used[c.at[p.Worker]]
	u.Cores -= p.Cores
	u.MemoryMiB -= p.MemoryMiB
	delete(c.apps, id)
	delete(c.holds, id)
	return id, p.Worker
}

// apply charges a plan.
func (c *cluster) apply(plan []model.Placement) {
	for _, p := range plan {
		a := *c.apps[p.App]
		a.Live = map[int]int{0: 1}
		a.CoresGranted = p.Cores
		c.apps[p.App] = &a
		c.holds[p.App] = p
		u := &c.used[c.at[p.Worker]]
		u.Cores += p.Cores
		u.MemoryMiB += p.MemoryMiB
	}
}

// passes measures whole passes of the scheduler, applications and all, without
// what surrounds them in a master.
func passes(ctx context.Context, r *bench.Report, conf Config, sizes []int) error {
	for _, n := range sizes {
		var runs []float64
		c := newCluster(workers(n))
		ix := scheduler.NewIndex()
		ix.Plan(c, scheduler.Changes{}, scheduler.Options{}) // it reads everything once
		kept := lasting(c.workers, modes()[0])
		for range conf.Pairs {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("measure passes: %w", err)
			}
			placed, took := 0, time.Duration(0)
			for placed < conf.Turns/4 || len(c.apps) < kept {
				ch := scheduler.Changes{}
				for range batch {
					if len(c.apps) >= kept {
						app, w := c.end()
						ch.Apps, ch.Workers = append(ch.Apps, app), append(ch.Workers, w)
					}
					ch.Apps = append(ch.Apps, c.submit())
				}
				began := time.Now()
				plan := ix.Plan(c, ch, scheduler.Options{})
				took += time.Since(began)
				if len(plan) != batch {
					return fmt.Errorf("measure passes: %d of %d applications found a place on %d workers", len(plan), batch, n)
				}
				c.apply(plan)
				placed += len(plan)
			}
			runs = append(runs, float64(placed)/took.Seconds())
		}
		r.Figure(fmt.Sprintf("whole passes, %d applications each, %d workers", batch, n), "placements/s", runs)
	}
	return nil
}
