package driver

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Dynamic changes the number of executors with the load, by the rules of Spark's
// dynamic allocation (org.apache.spark.ExecutorAllocationManager). While calls
// have waited for BacklogTimeout more executors are asked for: one, then two, four
// and so on every SustainedTimeout, never more than the calls need. An executor
// without a call for IdleTimeout is ended. It only asks: the cluster gives what it
// has. All numbers are those of one profile, the program's own, or another one from
// its first call on.
type Dynamic struct {
	// Min and Max bound what is asked for; Max 0 = no bound. Initial is what is
	// asked for at the start; 0 = Min.
	Min, Max, Initial int
	// BacklogTimeout, SustainedTimeout and IdleTimeout: 0 = 1 s, as BacklogTimeout,
	// 60 s (Spark's defaults).
	BacklogTimeout   time.Duration
	SustainedTimeout time.Duration
	IdleTimeout      time.Duration
	// Keep says that an executor must not be ended although it is idle, because
	// of what it has in memory or on its disk; nil = none. It must not block.
	Keep func(ExecutorInfo) bool
}

// Spark's defaults of Dynamic.
const (
	DefaultBacklogTimeout = time.Second
	DefaultIdleTimeout    = time.Minute
)

// prepare checks the policy and fills in its defaults; errors wrap
// model.ErrInvalid.
func (d Dynamic) prepare() (Dynamic, error) {
	if d.Max == 0 {
		d.Max = model.MaxExecutors
	}
	if d.Initial == 0 {
		d.Initial = d.Min
	}
	switch {
	case d.Min < 0 || d.Max < max(1, d.Min) || d.Max > model.MaxExecutors:
		return d, fmt.Errorf("dynamic allocation: %w: min %d and max %d: want 0 <= min <= max, max from 1 to %d", model.ErrInvalid, d.Min, d.Max, model.MaxExecutors)
	case d.Initial < d.Min || d.Initial > d.Max:
		return d, fmt.Errorf("dynamic allocation: %w: initial %d: must be between min %d and max %d", model.ErrInvalid, d.Initial, d.Min, d.Max)
	case d.BacklogTimeout < 0 || d.SustainedTimeout < 0 || d.IdleTimeout < 0:
		return d, fmt.Errorf("dynamic allocation: %w: a time-out is negative", model.ErrInvalid)
	}
	if d.BacklogTimeout == 0 {
		d.BacklogTimeout = DefaultBacklogTimeout
	}
	if d.SustainedTimeout == 0 {
		d.SustainedTimeout = d.BacklogTimeout
	}
	if d.IdleTimeout == 0 {
		d.IdleTimeout = DefaultIdleTimeout
	}
	return d, nil
}

// load is what the allocator looks at.
type load struct {
	waiting   int // tasks without a slot
	running   int // tasks with one
	executors []ExecutorInfo
}

// allocator decides how many executors there should be. It has no clock and calls
// nothing; one goroutine uses it.
type allocator struct {
	cfg    Dynamic
	target int
	// initial: nothing has happened yet that would speak against Initial.
	initial bool
	step    int       // how many to add next
	addAt   time.Time // zero = nothing waits
	slots   int       // tasks of one executor, as far as is known
	idle    map[model.ExecutorID]time.Time
	leaving map[model.ExecutorID]bool // told to go
}

func newAllocator(cfg Dynamic, slots int) *allocator {
	return &allocator{
		cfg: cfg, target: cfg.Initial, initial: true, step: 1, slots: max(1, slots),
		idle: make(map[model.ExecutorID]time.Time), leaving: make(map[model.ExecutorID]bool),
	}
}

// decide returns the idle executors that are to go; target is the number to ask
// for. An executor that is still there although it was to go is named again.
func (a *allocator) decide(l load, now time.Time) (remove []model.ExecutorID) {
	a.observe(l, now)
	idle := a.timedOut(l, now)
	if l.waiting > 0 || len(idle) > 0 {
		a.initial = false
	}
	a.aim(l, now)
	total := 0
	for _, e := range l.executors {
		if !a.leaving[e.ID] {
			total++
		}
	}
	for _, id := range idle {
		if total <= a.cfg.Min || total <= a.target {
			break
		}
		total--
		a.leaving[id] = true
	}
	for _, e := range l.executors {
		if a.leaving[e.ID] {
			remove = append(remove, e.ID)
		}
	}
	return remove
}

// observe notes since when executors are idle and calls wait.
func (a *allocator) observe(l load, now time.Time) {
	there := make(map[model.ExecutorID]bool, len(l.executors))
	for _, e := range l.executors {
		there[e.ID] = true
		a.slots = max(a.slots, e.Slots)
		switch since, known := a.idle[e.ID]; {
		case e.Running > 0 || e.State == ExecutorAnnounced:
			delete(a.idle, e.ID)
		case !known || since.IsZero():
			a.idle[e.ID] = now
		}
	}
	for id := range a.idle {
		if !there[id] {
			delete(a.idle, id)
		}
	}
	for id := range a.leaving {
		if !there[id] {
			delete(a.leaving, id)
		}
	}
	switch {
	case l.waiting == 0:
		a.addAt, a.step = time.Time{}, 1
	case a.addAt.IsZero():
		a.addAt = now.Add(a.cfg.BacklogTimeout)
	}
}

// timedOut lists the executors that have been idle for long, by id.
func (a *allocator) timedOut(l load, now time.Time) []model.ExecutorID {
	var out []model.ExecutorID
	for _, e := range l.executors {
		since, ok := a.idle[e.ID]
		if !ok || a.leaving[e.ID] || now.Sub(since) < a.cfg.IdleTimeout || a.cfg.Keep != nil && a.cfg.Keep(e) {
			continue
		}
		out = append(out, e.ID)
	}
	slices.Sort(out)
	return out
}

// aim changes the target.
func (a *allocator) aim(l load, now time.Time) {
	needed := int(math.Ceil(float64(l.waiting+l.running) / float64(a.slots)))
	switch {
	case a.initial:
	case needed < a.target:
		a.target, a.step = max(needed, a.cfg.Min), 1
	case !a.addAt.IsZero() && !now.Before(a.addAt):
		a.grow(needed, len(l.executors))
		a.addAt = now.Add(a.cfg.SustainedTimeout)
	}
}

// grow raises the target by a step that doubles as long as it is used up.
func (a *allocator) grow(needed, there int) {
	old := a.target
	a.target = min(max(a.target, there)+a.step, needed, a.cfg.Max)
	a.target = max(a.target, a.cfg.Min)
	if a.target-old >= a.step {
		a.step = min(2*a.step, model.MaxExecutors)
	} else {
		a.step = 1
	}
}

// runAllocation keeps the number of executors at what the load needs until ctx
// ends.
func (a *App) runAllocation(ctx context.Context, cfg Dynamic) {
	allocations := map[int]*allocation{model.ProfileDefault: {
		app: a, asked: cfg.Initial, allocator: newAllocator(cfg, a.program.ExecutorCores/max(1, a.program.CoresPerTask)),
	}}
	ends := &endings{drv: a.drv, log: a.log, idle: cfg.IdleTimeout, sent: make(map[model.ExecutorID]time.Time)}
	tick := time.NewTicker(allocationInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		loads, err := a.drv.loads(ctx)
		if err != nil {
			return // the driver has ended
		}
		var remove []model.ExecutorID
		for profile, l := range loads {
			if allocations[profile] == nil {
				allocations[profile] = &allocation{app: a, profile: profile, allocator: newAllocator(cfg, 1)}
			}
			remove = append(remove, allocations[profile].follow(ctx, l)...)
		}
		ends.end(ctx, remove, func(id model.ExecutorID) {
			for _, al := range allocations {
				delete(al.leaving, id)
			}
		})
	}
}

// allocation is the dynamic allocation of one profile.
type allocation struct {
	*allocator
	app     *App
	profile int
	asked   int
}

// follow asks for what a load needs and returns the executors that are to go.
func (al *allocation) follow(ctx context.Context, l *load) []model.ExecutorID {
	remove := al.decide(*l, time.Now())
	if al.target == al.asked {
		return remove
	}
	// First what is wanted, then who goes: a kill alone would be made good.
	ctx, cancel := context.WithTimeout(ctx, allocationTimeout)
	defer cancel()
	log := al.app.log.With("profile", al.profile)
	if err := al.app.drv.setTarget(ctx, al.profile, al.target); err != nil {
		log.Warn("the number of executors is not changed yet", "want", al.target, "err", err)
		return nil
	}
	log.Debug("asked for executors", "executors", al.target, "waiting", l.waiting, "running", l.running)
	al.asked = al.target
	return remove
}

// endings ends idle executors.
type endings struct {
	drv  *Driver
	log  hclog.Logger
	idle time.Duration                  // Dynamic.IdleTimeout
	sent map[model.ExecutorID]time.Time // when the leader was told last
}

// end tells the leader of executors that are to go. One that has got a call
// meanwhile stays.
func (e *endings) end(ctx context.Context, ids []model.ExecutorID, stays func(model.ExecutorID)) {
	retired, busy := e.drv.retire(ctx, ids)
	for _, id := range busy {
		stays(id)
	}
	var due []model.ExecutorID
	now := time.Now()
	for _, id := range retired {
		if t, ok := e.sent[id]; !ok || now.Sub(t) >= allocationTimeout {
			due = append(due, id)
		}
	}
	for id := range e.sent {
		if !slices.Contains(retired, id) {
			delete(e.sent, id)
		}
	}
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, allocationTimeout)
	defer cancel()
	err := e.drv.cfg.Client.KillExecutors(ctx, rpc.KillExecutorsRequest{
		App: e.drv.App(), Executors: due, Reason: fmt.Sprintf("idle for %s: dynamic allocation gives it back", e.idle),
	})
	if err != nil {
		e.log.Warn("idle executors are not ended yet", "executors", due, "err", err)
		return
	}
	e.log.Debug("ended idle executors", "executors", due)
	for _, id := range due {
		e.sent[id] = now
	}
}

// loads reads how much there is to do for executors of each profile that has had a
// call, and for the default one.
func (d *Driver) loads(ctx context.Context) (map[int]*load, error) {
	out := make(map[int]*load)
	err := d.call(ctx, func(l *loop) {
		for _, ln := range l.lanes {
			if ln.used || ln.profile == model.ProfileDefault {
				out[ln.profile] = &load{waiting: ln.waiting()}
			}
		}
		for _, e := range l.executors() {
			of := out[e.Profile]
			if of == nil {
				continue
			}
			of.executors = append(of.executors, e)
			of.running += min(e.Running, e.Slots)
			of.waiting += max(0, e.Running-e.Slots) // queued there
		}
	})
	return out, err
}

// retire keeps idle executors from getting another task. Those that have one are
// left alone.
func (d *Driver) retire(ctx context.Context, ids []model.ExecutorID) (retired, busy []model.ExecutorID) {
	if len(ids) == 0 {
		return nil, nil
	}
	_ = d.call(ctx, func(l *loop) { // an error says that the driver is over
		for _, id := range ids {
			switch m := l.members[id]; {
			case m == nil:
			case !m.retired && m.count > 0:
				busy = append(busy, id)
			default:
				m.retired = true
				retired = append(retired, id)
			}
		}
	})
	return retired, busy
}
