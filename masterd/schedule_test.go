package masterd

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

func TestAPlanIsCutIntoCommandsThatTheLogTakes(t *testing.T) {
	var large, small []model.Placement
	var addrs []string
	for n := range 1000 {
		addrs = append(addrs, fmt.Sprintf("0000:%02x:%02x.0", n>>8, n&0xff))
	}
	for n := range 200 {
		p := model.Placement{App: "app-20261130061500-0001", Worker: model.WorkerID(fmt.Sprintf("worker-%d", n)), Incarnation: 1, Cores: 1, MemoryMiB: 64}
		small = append(small, p)
		p.Resources = model.Resources{"gpu": addrs}
		large = append(large, p)
	}
	for name, plan := range map[string][]model.Placement{"small ones": small, "large ones": large, "none": nil} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, cmd := range placements(plan) {
				list := cmd.GetPlaceExecutors().GetPlacements()
				if size := proto.Size(cmd); size > raftnode.DefaultMaxBatchBytes/2 || len(list) > maxPlacementsCmd {
					t.Errorf("a command has %d placements in %d bytes", len(list), size)
				}
				for _, p := range list {
					if got, want := p.GetWorker(), string(plan[n].Worker); got != want {
						t.Fatalf("placement %d is on %s, want %s", n, got, want)
					}
					n++
				}
			}
			if n != len(plan) {
				t.Errorf("got %d placements, want %d", n, len(plan))
			}
		})
	}
}
