package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

// drivers makes n equal ones, d1…dn.
func drivers(n, cores int, memoryMiB int64) []Driver {
	var out []Driver
	for i := range n {
		out = append(out, Driver{ID: fmt.Sprintf("d%d", i+1), Cores: cores, MemoryMiB: memoryMiB})
	}
	return out
}

// holdDrivers charges what a pass has placed as the state would.
func (c *cluster) holdDrivers(all []Driver, placed []DriverPlacement) {
	for _, p := range placed {
		i := slices.IndexFunc(all, func(d Driver) bool { return d.ID == p.Driver })
		u := c.used[p.Worker].Clone()
		u.Cores += all[i].Cores
		u.MemoryMiB += all[i].MemoryMiB
		for name, addrs := range p.Resources {
			if u.Resources == nil {
				u.Resources = model.Resources{}
			}
			u.Resources[name] = append(u.Resources[name], addrs...)
		}
		c.used[p.Worker] = u
	}
}

func showDrivers(placed []DriverPlacement) string {
	var out []string
	for _, p := range placed {
		out = append(out, p.Driver+" "+string(p.Worker))
	}
	return strings.Join(out, ", ")
}

func TestDriversGoRoundTheWorkersByID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		drivers Drivers
		want    string
	}{
		{"case 52: three drivers, one on each worker", Drivers{Waiting: drivers(3, 1, 1), SpreadOut: true}, "d1 w1, d2 w2, d3 w3"},
		{"the next search starts behind the worker used last", Drivers{Waiting: drivers(2, 1, 1), SpreadOut: true, After: "w2"}, "d1 w3, d2 w1"},
		{"a worker used last that is gone still has its place", Drivers{Waiting: drivers(2, 1, 1), SpreadOut: true, After: "w1x"}, "d1 w2, d2 w3"},
		{"behind the last worker comes the first", Drivers{Waiting: drivers(1, 1, 1), SpreadOut: true, After: "w3"}, "d1 w1"},
		{"without spreading out the first that fits", Drivers{Waiting: drivers(3, 5, 1), After: "w2"}, "d1 w1, d2 w1, d3 w2"},
		{"a driver that does not fit is skipped", Drivers{Waiting: append([]Driver{{ID: "big", Cores: 11}}, drivers(1, 1, 1)...), SpreadOut: true}, "d1 w1"},
		{"no more than the limit", Drivers{Waiting: drivers(3, 1, 1), SpreadOut: true, Max: 4, Placed: 2}, "d1 w1, d2 w2"},
		{"none above the limit", Drivers{Waiting: drivers(3, 1, 1), Max: 2, Placed: 5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.equalWorkers(3, 10, 512)
			got := NewIndex().Pass(c, Changes{}, Options{Drivers: tc.drivers}).Drivers
			if diff := cmp.Diff(tc.want, showDrivers(got)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}

// Case 51 (SPARK-45174): three of three are placed, then one of three more.
func TestTheLimitOfDriversCountsThoseThatArePlaced(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(1, 10, 512)
	first := drivers(3, 1, 1)
	ix := NewIndex()
	placed := ix.Pass(c, Changes{}, Options{Drivers: Drivers{Waiting: first, Max: 4}}).Drivers
	if len(placed) != 3 {
		t.Fatalf("placed %s, want three", showDrivers(placed))
	}
	c.holdDrivers(first, placed)
	more := []Driver{{ID: "d4", Cores: 1}, {ID: "d5", Cores: 1}, {ID: "d6", Cores: 1}}
	placed = ix.Pass(c, Changes{}, Options{Drivers: Drivers{Waiting: more, Max: 4, Placed: 3}}).Drivers
	if diff := cmp.Diff("d4 w1", showDrivers(placed)); diff != "" {
		t.Errorf("placed (-want +got):\n%s", diff)
	}
}

// Case 55: the driver comes first and the application gets the rest.
func TestDriversComeBeforeExecutors(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(1, 4, 4096)
	c.app("a", 0, model.Profile{MemoryMiB: 1024})
	out := NewIndex().Pass(c, Changes{}, Options{Drivers: Drivers{Waiting: drivers(1, 2, 1024)}})
	if diff := cmp.Diff("d1 w1; a w1=2", showDrivers(out.Drivers)+"; "+show(out.Executors)); diff != "" {
		t.Errorf("placed (-want +got):\n%s", diff)
	}
}

// Cases 56 and 57: a driver waits for a worker with what it needs, and its
// application's executor gets other addresses.
func TestADriverAndAnExecutorShareNoAddress(t *testing.T) {
	t.Parallel()
	need := map[string]int{"gpu": 3}
	c := newCluster()
	c.app("a", 0, model.Profile{Cores: 1, MemoryMiB: 1, Resources: need})
	waiting := Drivers{Waiting: []Driver{{ID: "d1", Cores: 1, MemoryMiB: 1, Resources: need}}}
	ix := NewIndex()
	if out := ix.Pass(c, Changes{}, Options{Drivers: waiting}); len(out.Drivers) != 0 {
		t.Fatalf("without a worker %s was placed", showDrivers(out.Drivers))
	}
	c.worker("w1", 8, 4096, 6)
	out := ix.Pass(c, Changes{Workers: []model.WorkerID{"w1"}}, Options{Drivers: waiting})
	if len(out.Drivers) != 1 || len(out.Executors) != 1 {
		t.Fatalf("placed %s and %s, want one of each", showDrivers(out.Drivers), show(out.Executors))
	}
	got := append(slices.Clone(out.Drivers[0].Resources["gpu"]), out.Executors[0].Resources["gpu"]...)
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// TestDriversArePlacedAsTheRulesSay reads the rules one by one.
func TestDriversArePlacedAsTheRulesSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.apps = nil
		ds := Drivers{
			SpreadOut: rapid.Bool().Draw(t, "spread"), Max: rapid.IntRange(0, 4).Draw(t, "max"), Placed: rapid.IntRange(0, 2).Draw(t, "placed"),
			After: model.WorkerID(fmt.Sprintf("w%d", rapid.IntRange(3, 14).Draw(t, "after"))),
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "drivers") {
			d := Driver{ID: fmt.Sprint("d", i), Cores: rapid.IntRange(1, 6).Draw(t, "cores"), MemoryMiB: rapid.Int64Range(0, 6).Draw(t, "memory") * 256}
			if rapid.IntRange(0, 3).Draw(t, "wantsGPU") == 0 {
				d.Resources = map[string]int{"gpu": rapid.IntRange(1, 2).Draw(t, "gpu")}
			}
			ds.Waiting = append(ds.Waiting, d)
		}
		opt := drawOptions(t, c)
		opt.Drivers = ds
		got := NewIndex().Pass(c, Changes{}, opt).Drivers
		if diff := cmp.Diff(naiveDrivers(c, ds, opt), showDrivers(got)); diff != "" {
			t.Fatalf("placed (-naive +got):\n%s", diff)
		}
	})
}

func naiveDrivers(c *cluster, ds Drivers, opt Options) string {
	var plan []model.Placement
	var out []string
	last := ds.After
	for _, d := range ds.Waiting {
		if ds.Max > 0 && ds.Placed+len(plan) >= ds.Max {
			continue
		}
		var order, wrapped []*model.Worker
		for _, w := range c.workers { // by id
			if !ds.SpreadOut || w.ID > last {
				order = append(order, w)
			} else {
				wrapped = append(wrapped, w)
			}
		}
		for _, w := range append(order, wrapped...) {
			cores, memory, addrs := naiveFree(c, w, plan)
			ok := w.State == model.WorkerAlive && (opt.WorkerBlocked == nil || !opt.WorkerBlocked(w.ID)) && cores >= d.Cores && memory >= d.MemoryMiB
			p := model.Placement{Worker: w.ID, Cores: d.Cores, MemoryMiB: d.MemoryMiB, Resources: model.Resources{}}
			for name, n := range d.Resources {
				if ok = ok && len(addrs[name]) >= n; ok {
					p.Resources[name] = addrs[name][:n]
				}
			}
			if ok {
				plan = append(plan, p)
				out = append(out, d.ID+" "+string(w.ID))
				last = w.ID
				break
			}
		}
	}
	return strings.Join(out, ", ")
}
