package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
	"pgregory.net/rapid"
)

var _ scheduler.View = (*Scheduling)(nil)

// TestWhatTheSchedulerPlansIsAccepted: the scheduler and the state judge by
// the same rules, so a plan made from a view is accepted whole at that tick.
func TestWhatTheSchedulerPlansIsAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 25).Draw(rt, "rounds") {
			w.after(int64(rapid.SampledFrom([]int{1, 1000, 31_000}).Draw(rt, "pass")))
			w.do(gen{rt, w.v()}.batch(w.tick, w.index)...)
			if rapid.IntRange(0, 3).Draw(rt, "driver") == 0 {
				w.do(submitDriver(model.DriverSpec{
					Name: "d", Cores: rapid.IntRange(1, 2).Draw(rt, "driver cores"), MemoryMiB: 64,
					Supervise: rapid.Bool().Draw(rt, "supervise"), Command: model.Command{Argv: []string{"true"}},
				}))
			}
			pass := scheduler.NewIndex().Pass(w.v().At(w.v().Tick()), scheduler.Changes{}, scheduler.Options{})
			ds := make([]*replogv1.DriverPlacement, 0, len(pass.Drivers))
			for _, p := range pass.Drivers {
				p.Secret = secret
				ds = append(ds, DriverPlacementToProto(p))
			}
			for i, v := range w.must(placeDrivers(ds...)).Placements {
				if v.Rejection != model.RejectNone {
					rt.Fatalf("driver %+v refused: %s %s", pass.Drivers[i], v.Rejection, v.Text)
				}
			}
			plan := pass.Executors
			ps := make([]*replogv1.Placement, 0, len(plan))
			for _, p := range plan {
				p.Secret = secret
				ps = append(ps, PlacementToProto(p))
			}
			for i, v := range w.must(place(ps...)).Placements {
				if v.Rejection != model.RejectNone {
					rt.Fatalf("placement %+v refused: %s %s", plan[i], v.Rejection, v.Text)
				}
			}
			if w.v().Settings().GangAfterMilli > 0 {
				continue // what was kept for a gang may be free now
			}
			if again := scheduler.Plan(w.v().At(w.v().Tick()), scheduler.Options{}); len(again) != 0 {
				rt.Fatalf("after the plan there is still something to place: %+v", again)
			}
		}
	})
}
