package fsm

import (
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// A command that places several drivers must see in the books what it has done so
// far. That they are right after every batch is an invariant.
func TestTheShareOfDriversIsKnownWithinABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(2, 4)
	w.must(setting(model.SettingDriverShare, "0.5"))
	var ids []model.DriverID
	for range 5 {
		ids = append(ids, w.must(submitDriver(driverOf(false))).Driver)
	}
	var ps []*replogv1.DriverPlacement
	for i, id := range ids {
		ps = append(ps, driverPlacement(id, fmt.Sprintf("w%d", i%2+1), 1))
	}
	placed := 0
	for _, v := range w.must(placeDrivers(ps...)).Placements {
		if v.Rejection == model.RejectNone {
			placed++
		} else if v.Rejection != model.RejectOverCores {
			t.Errorf("refused: %s", v.Text)
		}
	}
	if placed != 4 {
		t.Errorf("%d of five drivers were placed, want four: half of eight cores", placed)
	}
	if cores, most := w.v().At(w.tick).DriverCores(); cores != 4 || most != 4 {
		t.Errorf("they hold %d of %d cores, want 4 of 4", cores, most)
	}
}

// BenchmarkWhatMayFallDue asks each second's question of a state with many
// applications, of which ten have a limit: of the book, and of them all.
func BenchmarkWhatMayFallDue(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		w := benchWorld(b, 1, 4)
		for i := range n {
			spec := commandSpec(1, 1, model.RestartAlways)
			if i < 10 {
				spec.MaxRuntimeMilli = 1 << 40
			}
			w.must(regApp(spec))
		}
		v := w.v()
		for name, due := range map[string]func() int{
			"book": func() int { return len(v.Due(w.tick)) },
			"scan": func() int {
				found := 0
				v.ActiveApps(func(a *model.App) bool {
					if appDue(a, w.tick, 0) {
						found++
					}
					return true
				})
				return found
			},
		} {
			b.Run(fmt.Sprintf("%s/apps=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if !v.MayFallDue() || due() > 0 {
						b.Fatal("ten may fall due, and none has")
					}
				}
			})
		}
	}
}
