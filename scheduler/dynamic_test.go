package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// Dynamic allocation on two workers of 10 cores and 2048 MiB
// (spark-standalone 3.3). A step is "+n" (the driver asks for n more), "kill n"
// or "kill all" (the driver gives executors back, which lowers the target), and
// is followed by a pass; the answer is "executors' cores / target".
func TestDynamicAllocation(t *testing.T) {
	t.Parallel()
	type step struct{ do, want string }
	for _, tc := range []struct {
		name       string
		coresMax   int
		size       int
		start      string
		transcript []step
	}{
		{
			"case 46: no limits", 0, 0, "10 10 / unlimited",
			[]step{
				{"kill all", " / 0"},
				{"+1", "10 / 1"},
				{"+1", "10 10 / 2"},
				{"+1", "10 10 / 3"},
				{"kill all", "10 / 1"},
				{"kill all", " / 0"},
				{"+1000", "10 10 / 1000"},
			},
		},
		{
			"case 47: eight cores at most", 8, 0, "4 4 / unlimited",
			[]step{
				{"kill all", " / 0"},
				{"+1", "8 / 1"},
				{"+1", "8 / 2"},
				{"+1", "8 / 3"},
				{"kill all", "4 4 / 2"},
				{"kill all", " / 0"},
				{"+1000", "4 4 / 1000"},
			},
		},
		{
			"case 49: two cores per executor", 0, 2, "2 2 2 2 2 2 2 2 2 2 / unlimited",
			[]step{
				{"kill all", " / 0"},
				{"+1", "2 / 1"},
				{"+3", "2 2 2 2 / 4"},
				{"+10", "2 2 2 2 2 2 2 2 2 2 / 14"},
				{"kill 2", "2 2 2 2 2 2 2 2 2 2 / 12"},
				{"kill 4", "2 2 2 2 2 2 2 2 / 8"},
				{"kill all", " / 0"},
				{"+1000", "2 2 2 2 2 2 2 2 2 2 / 1000"},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.equalWorkers(2, 10, 2048)
			a := c.app("a", tc.coresMax, model.Profile{Cores: tc.size, MemoryMiB: 128})
			c.pass()
			if diff := cmp.Diff(tc.start, c.allocation(a)); diff != "" {
				t.Fatalf("at the start (-want +got):\n%s", diff)
			}
			for i, s := range tc.transcript {
				c.request(t, a, s.do)
				c.pass()
				if diff := cmp.Diff(s.want, c.allocation(a)); diff != "" {
					t.Fatalf("after step %d, %q (-want +got):\n%s", i+1, s.do, diff)
				}
			}
		})
	}
}

func (c *cluster) request(t *testing.T, a *model.App, do string) {
	t.Helper()
	n := 0
	switch {
	case do == "kill all":
		n = len(c.running[a.ID])
		a.Targets[0] = max(0, a.Targets[0]-n) // an unlimited target becomes what is kept
		c.end(string(a.ID), -1)
	case strings.HasPrefix(do, "+"):
		if _, err := fmt.Sscanf(do, "+%d", &n); err != nil {
			t.Fatal(err)
		}
		a.Targets[0] += n
	default:
		if _, err := fmt.Sscanf(do, "kill %d", &n); err != nil {
			t.Fatal(err)
		}
		a.Targets[0] -= n
		c.end(string(a.ID), n)
	}
}

func (c *cluster) allocation(a *model.App) string {
	var cores []string
	for _, p := range c.running[a.ID] {
		cores = append(cores, fmt.Sprint(p.Cores))
	}
	target := "unlimited"
	if a.Targets[0] != model.TargetUnlimited {
		target = fmt.Sprint(a.Targets[0])
	}
	return strings.Join(cores, " ") + " / " + target
}
