package scheduler

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

// equalDrivers makes n equal ones, d1…dn.
func equalDrivers(n, cores int, memoryMiB int64) []*model.Driver {
	var out []*model.Driver
	for i := range n {
		out = append(out, driver(fmt.Sprintf("d%d", i+1), cores, memoryMiB, nil))
	}
	return out
}

func driver(id string, cores int, memoryMiB int64, resources map[string]int) *model.Driver {
	return &model.Driver{ID: model.DriverID(id), Spec: model.DriverSpec{Cores: cores, MemoryMiB: memoryMiB, Resources: resources}}
}

// settle charges what a pass has placed as the state would.
func (c *cluster) settle(placed []model.DriverPlacement) {
	for _, p := range placed {
		i := slices.IndexFunc(c.waiting, func(d *model.Driver) bool { return d.ID == p.Driver })
		d := c.waiting[i]
		c.waiting = slices.Delete(slices.Clone(c.waiting), i, i+1)
		c.placedDrivers++
		c.cursor = p.Worker
		c.driverCores += d.Spec.Cores
		u := c.used[p.Worker].Clone()
		u.Cores += d.Spec.Cores
		u.MemoryMiB += d.Spec.MemoryMiB
		for name, addrs := range p.Resources {
			if u.Resources == nil {
				u.Resources = model.Resources{}
			}
			u.Resources[name] = append(u.Resources[name], addrs...)
		}
		c.used[p.Worker] = u
	}
}

func showDrivers(placed []model.DriverPlacement) string {
	var out []string
	for _, p := range placed {
		out = append(out, string(p.Driver)+" "+string(p.Worker))
	}
	return strings.Join(out, ", ")
}

func TestDriversGoRoundTheWorkersByID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		waiting []*model.Driver
		after   model.WorkerID
		packed  bool
		max     int
		placed  int
		cores   [2]int // of drivers that are placed, and the most
		want    string
	}{
		{name: "case 52: three drivers, one on each worker", waiting: equalDrivers(3, 1, 1), want: "d1 w1, d2 w2, d3 w3"},
		{name: "the next search starts behind the worker used last", waiting: equalDrivers(2, 1, 1), after: "w2", want: "d1 w3, d2 w1"},
		{name: "a worker used last that is gone still has its place", waiting: equalDrivers(2, 1, 1), after: "w1x", want: "d1 w2, d2 w3"},
		{name: "behind the last worker comes the first", waiting: equalDrivers(1, 1, 1), after: "w3", want: "d1 w1"},
		{name: "without spreading out the first that fits", waiting: equalDrivers(3, 5, 1), after: "w2", packed: true, want: "d1 w1, d2 w1, d3 w2"},
		{name: "a driver that does not fit is skipped", waiting: append([]*model.Driver{driver("big", 11, 1, nil)}, equalDrivers(1, 1, 1)...), want: "d1 w1"},
		{name: "no more than the limit", waiting: equalDrivers(3, 1, 1), max: 4, placed: 2, want: "d1 w1, d2 w2"},
		{name: "none above the limit", waiting: equalDrivers(3, 1, 1), max: 2, placed: 5},
		{name: "a driver above the share of cores is skipped", waiting: append([]*model.Driver{driver("big", 3, 1, nil)}, equalDrivers(3, 1, 1)...), cores: [2]int{2, 4}, want: "d1 w1, d2 w2"},
		{name: "a share below one core leaves room for none", waiting: equalDrivers(2, 1, 1), cores: [2]int{1, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.equalWorkers(3, 10, 512)
			c.waiting, c.cursor, c.placedDrivers = tc.waiting, tc.after, tc.placed
			c.settings.SpreadOutDrivers, c.settings.MaxDrivers = !tc.packed, tc.max
			c.driverCores, c.maxDriverCores = tc.cores[0], tc.cores[1]
			if tc.cores != [2]int{} {
				c.settings.DriverShareMilli = 1
			}
			got := NewIndex().Pass(c, Changes{}, Options{}).Drivers
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
	c.waiting, c.settings.MaxDrivers = equalDrivers(3, 1, 1), 4
	ix := NewIndex()
	placed := ix.Pass(c, Changes{}, Options{}).Drivers
	if len(placed) != 3 {
		t.Fatalf("placed %s, want three", showDrivers(placed))
	}
	c.settle(placed)
	c.waiting = []*model.Driver{driver("d4", 1, 1, nil), driver("d5", 1, 1, nil), driver("d6", 1, 1, nil)}
	placed = ix.Pass(c, Changes{Apps: []model.AppID{"d4", "d5", "d6"}}, Options{}).Drivers
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
	c.waiting = equalDrivers(1, 2, 1024)
	out := NewIndex().Pass(c, Changes{}, Options{})
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
	c.waiting = []*model.Driver{driver("d1", 1, 1, need)}
	ix := NewIndex()
	if out := ix.Pass(c, Changes{}, Options{}); len(out.Drivers) != 0 {
		t.Fatalf("without a worker %s was placed", showDrivers(out.Drivers))
	}
	c.worker("w1", 8, 4096, 6)
	out := ix.Pass(c, Changes{Workers: []model.WorkerID{"w1"}}, Options{})
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
		drawDrivers(t, c)
		opt := drawOptions(t, c)
		got := NewIndex().Pass(c, Changes{}, opt).Drivers
		if diff := cmp.Diff(showDrivers(naiveDrivers(c, opt, naiveKept(c))), showDrivers(got)); diff != "" {
			t.Fatalf("placed (-naive +got):\n%s", diff)
		}
	})
}

// drawDrivers draws those that wait, and what says how they are placed.
func drawDrivers(t *rapid.T, c *cluster) {
	c.settings.SpreadOutDrivers = rapid.Bool().Draw(t, "spreadDrivers")
	c.settings.MaxDrivers = rapid.IntRange(0, 4).Draw(t, "maxDrivers")
	c.placedDrivers = rapid.IntRange(0, 2).Draw(t, "placedDrivers")
	c.cursor = model.WorkerID(fmt.Sprintf("w%d", rapid.IntRange(3, 14).Draw(t, "cursor")))
	if rapid.IntRange(0, 2).Draw(t, "share") == 0 {
		c.settings.DriverShareMilli = 500
		c.driverCores, c.maxDriverCores = rapid.IntRange(0, 4).Draw(t, "driverCores"), rapid.IntRange(0, 12).Draw(t, "maxDriverCores")
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "drivers") {
		d := driver(fmt.Sprint("d", i), rapid.IntRange(1, 6).Draw(t, "cores"), rapid.Int64Range(0, 6).Draw(t, "memory")*256, nil)
		if rapid.IntRange(0, 3).Draw(t, "wantsGPU") == 0 {
			d.Spec.Resources = map[string]int{"gpu": rapid.IntRange(1, 2).Draw(t, "gpu")}
		}
		c.waiting = append(c.waiting, d)
	}
}

// TestDriversComeAndGoAsTheRulesSay keeps one index over passes between which
// drivers come, go and are placed, and workers change: it looks again at what is
// named only.
func TestDriversComeAndGoAsTheRulesSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.apps, c.settings.GangAfterMilli = nil, 0
		drawDrivers(t, c)
		ix := NewIndex()
		changed, next := Changes{}, 100
		for range rapid.IntRange(1, 8).Draw(t, "passes") {
			opt := drawOptions(t, c)
			got := ix.Pass(c, changed, opt).Drivers
			if diff := cmp.Diff(showDrivers(naiveDrivers(c, opt, keptFor{})), showDrivers(got)); diff != "" {
				t.Fatalf("placed (-naive +got):\n%s", diff)
			}
			if rapid.Bool().Draw(t, "applied") {
				c.settle(got)
			}
			changed = Changes{All: rapid.IntRange(0, 4).Draw(t, "all") == 0}
			if len(c.waiting) > 0 && rapid.Bool().Draw(t, "goes") {
				i := rapid.IntRange(0, len(c.waiting)-1).Draw(t, "who")
				changed.Apps = append(changed.Apps, c.waiting[i].ID.Owner())
				c.waiting = slices.Delete(slices.Clone(c.waiting), i, i+1)
			}
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				d := driver(fmt.Sprint("d", next), rapid.IntRange(1, 6).Draw(t, "cores"), 256, nil)
				next++
				c.waiting = append(c.waiting, d)
				changed.Apps = append(changed.Apps, d.ID.Owner())
			}
			slices.SortFunc(c.waiting, compareDrivers)
			if len(c.workers) > 0 && rapid.Bool().Draw(t, "frees") {
				w := rapid.SampledFrom(c.workers).Draw(t, "worker")
				c.used[w.ID] = model.Usage{}
				changed.Workers = append(changed.Workers, w.ID)
			}
			if rapid.IntRange(0, 3).Draw(t, "newWorker") == 0 {
				id := fmt.Sprintf("w%d", rapid.IntRange(1, 400).Draw(t, "id"))
				if _, _, known := c.SchedulableWorker(model.WorkerID(id)); !known && !slices.ContainsFunc(c.workers, func(w *model.Worker) bool { return string(w.ID) == id }) {
					c.worker(id, rapid.IntRange(1, 8).Draw(t, "cores"), 2048, 0)
					changed.Workers = append(changed.Workers, model.WorkerID(id))
				}
			}
		}
	})
}

// A driver goes to the first worker behind another one that has room, wherever
// those are among many.
func TestTheSearchForADriversWorkerGoesRoundManyWorkers(t *testing.T) {
	t.Parallel()
	const n = 9000 // more than two sheets of the grid
	for _, policy := range []model.SelectionPolicy{model.CoresFreeDesc, model.MemoryFreeAsc, model.ByWorkerID} {
		p := NewPool(policy)
		for i := range n {
			p.Set(&model.Worker{ID: model.WorkerID(fmt.Sprintf("w%05d", i)), Offer: model.Offer{Cores: 1 + i%2, MemoryMiB: 8}}, model.Usage{})
		}
		prof := model.Profile{Cores: 2, MemoryMiB: 1}
		room := make([]bool, n) // two cores are free
		for i := range room {
			room[i] = i%2 == 1
		}
		rnd := rand.New(rand.NewSource(1))
		for range 3 * n / 4 {
			from := rnd.Intn(n)
			want := -1
			for i := range n {
				if at := (from + i) % n; room[at] {
					want = at
					break
				}
			}
			at, ok := p.firstFit(&prof, from, nil)
			if ok != (want >= 0) || ok && int(p.slots[at].pos) != want {
				t.Fatalf("%s: from %d found %d (%t), want %d", policy, from, at, ok, want)
			}
			if !ok {
				break
			}
			p.charge(at, 2, &prof)
			p.settle(at)
			room[want] = false
		}
	}
}
