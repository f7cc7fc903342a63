package fsm

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
	"pgregory.net/rapid"
)

// passes is the scheduler of a leader beside a world: one index for all its life, which looks again at what the entries
// since its last pass have changed.
type passes struct {
	*world
	index   *scheduler.Index
	changed scheduler.Changes
	wakeAt  int64
}

// apply applies an entry and notes what it has changed.
func (p *passes) apply(cmds ...*replogv1.Command) []Result {
	out := p.do(cmds...)
	for _, c := range p.last.Changes {
		if c.App != "" {
			p.changed.Apps = append(p.changed.Apps, c.App)
		}
		if c.Worker != "" {
			p.changed.Workers = append(p.changed.Workers, c.Worker)
		}
	}
	return out
}

// plan makes the commands of the next pass, and names what they propose, in their order: drivers first.
func (p *passes) plan() (cmds []*replogv1.Command, names []string) {
	view := p.v().At(p.v().Tick())
	if p.wakeAt > 0 && p.wakeAt <= p.v().Tick() {
		p.changed = scheduler.Changes{All: true}
	}
	plan := p.index.Pass(view, p.changed, scheduler.Options{})
	p.changed, p.wakeAt = scheduler.Changes{}, view.NextWake()
	var ds []*replogv1.DriverPlacement
	for _, x := range plan.Drivers {
		names = append(names, fmt.Sprintf("%s on %s in incarnation %d with %v", x.Driver, x.Worker, x.Incarnation, x.Resources))
		x.Secret = secret
		ds = append(ds, DriverPlacementToProto(x))
	}
	var ps []*replogv1.Placement
	for _, x := range plan.Executors {
		names = append(names, fmt.Sprintf("%d cores of profile %d of %s on %s in incarnation %d with %v", x.Cores, x.Profile, x.App, x.Worker, x.Incarnation, x.Resources))
		x.Secret = secret
		ps = append(ps, PlacementToProto(x))
	}
	if len(ds) > 0 {
		cmds = append(cmds, placeDrivers(ds...))
	}
	if len(ps) > 0 {
		cmds = append(cmds, place(ps...))
	}
	return cmds, names
}

// commit applies a plan and returns the names of what is refused, with the reasons.
func (p *passes) commit(cmds []*replogv1.Command, names []string) map[string]string {
	refused := make(map[string]string)
	if len(cmds) == 0 {
		return refused
	}
	i := 0
	for _, res := range p.apply(cmds...) {
		for _, v := range res.Placements {
			if v.Rejection != model.RejectNone {
				refused[names[i]] = fmt.Sprintf("%s: %s", v.Rejection, v.Text)
			}
			i++
		}
	}
	return refused
}

// TestSC13AnIdenticalRefusedPlacementIsNeverProposedMoreThanTwice: other commands come between a plan and its entry, so
// that some of it is refused. The next pass looks at what has changed since and nothing else, as a leader's does; what it
// proposes is accepted, so that nothing is refused twice for as long as nothing else happens.
func TestSC13AnIdenticalRefusedPlacementIsNeverProposedMoreThanTwice(t *testing.T) {
	t.Parallel()
	var states, refusals atomic.Int64
	t.Cleanup(func() { t.Logf("%d states, %d refused placements", states.Load(), refusals.Load()) })
	rapid.Check(t, func(rt *rapid.T) {
		p := &passes{world: newWorld(t), index: scheduler.NewIndex(), changed: scheduler.Changes{All: true}}
		p.withWorkers(rapid.IntRange(1, 3).Draw(rt, "workers"), 6)
		for range rapid.IntRange(1, 25).Draw(rt, "rounds") {
			p.after(int64(rapid.SampledFrom([]int{1, 1000, 31_000}).Draw(rt, "pass")))
			p.apply(gen{rt, p.v()}.batch(p.tick, p.world.index)...)
			if rapid.IntRange(0, 3).Draw(rt, "driver") == 0 {
				p.apply(submitDriver(driverOf(rapid.Bool().Draw(rt, "supervise"))))
			}
			cmds, names := p.plan()
			p.apply(gen{rt, p.v()}.batch(p.tick, p.world.index)...) // comes between
			proposed := make(map[string]int)
			for {
				states.Add(1)
				refused := p.commit(cmds, names)
				refusals.Add(int64(len(refused)))
				for name, why := range refused {
					if proposed[name]++; proposed[name] > 1 {
						rt.Fatalf("%s is refused for the second time: %s", name, why)
					}
				}
				if len(refused) == 0 {
					break
				}
				cmds, names = p.plan()
			}
		}
	})
}
