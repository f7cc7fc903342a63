package scheduler

import (
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
)

// BenchmarkPlan measures one pass over workers of 16 cores.
//
//   - idle: 1,000 applications that have what they want;
//   - one: one application takes an executor of 4 cores, all else is served;
//   - fill: 100 applications take the whole cluster;
//   - waiting: nothing is free in pieces that 1,000 waiting applications need.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		for _, sc := range []struct {
			name  string
			setup func(c *cluster)
		}{
			{"idle", func(c *cluster) { servedApps(c, 1000) }},
			{"one", func(c *cluster) {
				servedApps(c, 1000)
				c.app("new", 4, model.Profile{Cores: 4, MemoryMiB: 1024})
			}},
			{"fill", func(c *cluster) {
				for i := range 100 {
					c.app(fmt.Sprint("a", i), len(c.workers)*16/100, model.Profile{Cores: 2, MemoryMiB: 1024})
				}
			}},
			{"waiting", func(c *cluster) {
				for i := range 1000 {
					c.app(fmt.Sprint("a", i), 0, model.Profile{Cores: 17, MemoryMiB: 1024})
				}
			}},
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", sc.name, n), func(b *testing.B) {
				c := newCluster()
				for i := range n {
					c.workers = append(c.workers, &model.Worker{
						ID: model.WorkerID(fmt.Sprintf("worker-%05d", i)), State: model.WorkerAlive,
						Offer: model.Offer{Cores: 16, MemoryMiB: 65536},
					})
				}
				sc.setup(c)
				b.ReportAllocs()
				placed := 0
				for b.Loop() {
					placed = len(Plan(c, Options{}))
				}
				b.ReportMetric(float64(placed), "placements/op")
			})
		}
	}
}

func servedApps(c *cluster, n int) {
	for i := range n {
		a := c.app(fmt.Sprint("served", i), 0, model.Profile{Cores: 1, MemoryMiB: 1024})
		a.Targets[0], a.Live[0] = 2, 2
	}
}
