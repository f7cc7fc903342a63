package scheduler

import (
	"fmt"
	"syscall"
	"testing"
	"time"

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

// BenchmarkWaiting measures a pass over a full cluster in which 1,000
// applications wait: after one worker has changed, and when everything is read
// anew, which a leader does once a second.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 5000, 50_000} {
		for name, changes := range map[string]Changes{
			"event":  {Workers: []model.WorkerID{"worker-00007"}},
			"reread": {All: true},
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, n), func(b *testing.B) {
				c := newCluster()
				for i := range n {
					c.workers = append(c.workers, &model.Worker{
						ID: model.WorkerID(fmt.Sprintf("worker-%05d", i)), State: model.WorkerAlive,
						Offer: model.Offer{Cores: 16, MemoryMiB: 65536},
					})
				}
				for i := range 1000 {
					c.app(fmt.Sprint("a", i), 0, model.Profile{Cores: 17, MemoryMiB: 1024})
				}
				ix := NewIndex()
				ix.Plan(c, Changes{}, Options{})
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					ix.Plan(c, changes, Options{})
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkTake measures one decision and its reservation, each with a release:
// an executor of a mixed size on workers of mixed sizes that are seven tenths
// full.
func BenchmarkTake(b *testing.B) {
	for _, policy := range model.SelectionPolicies() {
		for _, n := range []int{100, 5000, 50_000} {
			b.Run(fmt.Sprintf("%s/workers=%d", policy, n), func(b *testing.B) {
				c := newChurn(policy, n)
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					c.turn(b)
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// churn is a pool in which executors come and go.
type churn struct {
	pool   *Pool
	live   []churned // a ring, the oldest at next
	next   int
	shares []Share
}

type churned struct {
	share Share
	prof  model.Profile
}

func newChurn(policy model.SelectionPolicy, n int) *churn {
	c := &churn{pool: NewPool(policy)}
	total := 0
	for i := range n {
		size := 16 << (i % 3)
		total += size
		c.pool.Set(&model.Worker{
			ID: model.WorkerID(fmt.Sprintf("worker-%05d", i)), State: model.WorkerAlive,
			Offer: model.Offer{Cores: size, MemoryMiB: int64(size) * 4096},
		}, model.Usage{})
	}
	c.live = make([]churned, total*7/10/4)
	for range c.live {
		c.place()
	}
	return c
}

// place puts an executor of 1 to 8 cores, four on average, into the ring.
func (c *churn) place() bool {
	i := c.next
	prof := model.Profile{Cores: []int{1, 8, 2, 5, 4}[i%5], MemoryMiB: []int64{1024, 8192, 3000}[i%3]}
	c.shares = c.pool.Take(Demand{Profile: prof, CoresLeft: prof.Cores, Wanted: 1, SpreadOut: true}, c.shares[:0])
	if len(c.shares) != 1 {
		return false
	}
	c.live[i] = churned{c.shares[0], prof}
	c.next = (i + 1) % len(c.live)
	return true
}

// turn ends the oldest executor and starts one.
func (c *churn) turn(b *testing.B) {
	e := &c.live[c.next]
	c.pool.Give(e.share, e.prof)
	if !c.place() {
		b.Fatal("an executor found no place")
	}
}

// cpuTime is what this process has used of the processors, which a busy machine
// distorts less than the time of day.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDrivers measures what drivers cost: to find the first worker by id
// from some place on where one fits, in a cluster of which one worker in 500 has
// room, by the index and one by one; and a pass after one worker has changed
// while 1,000 drivers wait that fit nowhere, by their lines and by asking for each.
func BenchmarkDrivers(b *testing.B) {
	for _, n := range []int{100, 5000, 50_000} {
		c := newCluster()
		for i := range n {
			w := &model.Worker{
				ID: model.WorkerID(fmt.Sprintf("worker-%05d", i)), State: model.WorkerAlive,
				Offer: model.Offer{Cores: 16, MemoryMiB: 65536},
			}
			c.workers = append(c.workers, w)
			if i%500 != 50 {
				c.used[w.ID] = model.Usage{Cores: 15}
			}
		}
		prof := model.Profile{Cores: 2, MemoryMiB: 1024}
		p := NewPool(model.CoresFreeDesc)
		p.setAll(c.SchedulableWorkers)
		for name, find := range map[string]func(from int) (int32, bool){
			"index": func(from int) (int32, bool) { return p.firstFit(&prof, from, nil) },
			"scan": func(from int) (int32, bool) {
				for i := range p.ids {
					at := p.ids[(from+i)%len(p.ids)]
					if model.Fits(p.free(&p.slots[at]), prof.Cores, prof.MemoryMiB, nil) {
						return at, true
					}
				}
				return 0, false
			},
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, n), func(b *testing.B) {
				from, before := 0, cpuTime(b)
				for b.Loop() {
					if _, ok := find(from); !ok {
						b.Fatal("one has room")
					}
					from = (from + 7919) % n
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
		for i := range 1000 {
			c.waiting = append(c.waiting, driver(fmt.Sprintf("driver-%04d", i), 17, 1024, nil))
		}
		large := model.Profile{Cores: 17, MemoryMiB: 1024}
		b.Run(fmt.Sprintf("each/workers=%d", n), func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				for range c.waiting {
					if _, ok := p.firstFit(&large, 0, nil); ok {
						b.Fatal("none has room")
					}
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
		b.Run(fmt.Sprintf("lines/workers=%d", n), func(b *testing.B) {
			ix := NewIndex()
			ix.Pass(c, Changes{}, Options{})
			before := cpuTime(b)
			for b.Loop() {
				ix.Pass(c, Changes{Workers: []model.WorkerID{"worker-00007"}}, Options{})
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
