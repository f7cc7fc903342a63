package masterd

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestAGangIsNeverDividedBetweenCommands(t *testing.T) {
	gang := func(n int, number uint32) []model.Placement {
		out := make([]model.Placement, n)
		for i := range out {
			out[i] = model.Placement{App: "app-20261130061500-0001", Worker: "w1", Incarnation: 1, Cores: 1, MemoryMiB: 64, Gang: number}
		}
		return out
	}
	plan := append(gang(40, 0), gang(30, 1)...)
	plan = append(plan, gang(200, 2)...)
	plan = append(plan, gang(70, 0)...)
	in := map[uint32]int{} // command of each gang
	n := 0
	for i, cmd := range placements(plan) {
		for _, p := range cmd.GetPlaceExecutors().GetPlacements() {
			if got, want := p.GetGang(), plan[n].Gang; got != want {
				t.Fatalf("placement %d is of gang %d, want %d", n, got, want)
			}
			if at, seen := in[p.GetGang()]; p.GetGang() != 0 && seen && at != i {
				t.Fatalf("gang %d is in commands %d and %d", p.GetGang(), at, i)
			}
			in[p.GetGang()] = i
			n++
		}
	}
	if n != len(plan) {
		t.Errorf("got %d placements, want %d", n, len(plan))
	}
}
