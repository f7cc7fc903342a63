//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// sizes waits until an application has exactly so many running executors of each profile, and returns their ids.
func sizes(c *testcluster.Cluster, app model.AppID, want map[int]int) map[int][]model.ExecutorID {
	var ids map[int][]model.ExecutorID
	c.Until(fmt.Sprintf("executors by profile are %v", want), 30*time.Second, func() error {
		ids = make(map[int][]model.ExecutorID)
		count := make(map[int]int)
		c.View().Executors(app, func(e *model.Executor) bool {
			if e.State == model.ExecutorRunning {
				ids[e.Profile] = append(ids[e.Profile], e.ID)
			}
			count[e.Profile]++
			return true
		})
		if !maps.Equal(count, want) || len(ids[0]) != want[0] || len(ids[1]) != want[1] {
			return fmt.Errorf("%v run of %v", ids, count)
		}
		return nil
	})
	return ids
}

// TestSimTotalsOfEachSizeAreAbsoluteAndSurviveAFailover lowers one, which ends nothing, and ends executors, which lowers
// nothing.
func TestSimTotalsOfEachSizeAreAbsoluteAndSurviveAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(2)
		leader := c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		d := c.StartDriver("job", 4)
		app := d.App()
		first := sizes(c, app, map[int]int{0: 4})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		req := driver.ExecutorRequest{Totals: map[int]int{0: 1, 1: 2}, Profiles: map[int]model.Profile{1: {MemoryMiB: 128}}}
		if err := d.RequestExecutors(ctx, req); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		sizes(c, app, map[int]int{0: 4}) // its cores are all in use: nothing is ended for the other size
		c.KillMaster(leader)
		kill := func(ids ...model.ExecutorID) {
			if err := c.Client().KillExecutors(ctx, rpc.KillExecutorsRequest{App: app, Executors: ids, Reason: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		kill(first[0][:3]...)
		second := sizes(c, app, map[int]int{0: 1, 1: 2})
		c.View().Executors(app, func(e *model.Executor) bool {
			if e.Profile == 1 && (e.MemoryMiB != 128 || e.Cores != 1) {
				t.Errorf("executor %d of profile 1 has %d cores and %d MiB, want 1 and 128", e.ID, e.Cores, e.MemoryMiB)
			}
			return true
		})
		kill(second[1][0], second[0][0])
		sizes(c, app, map[int]int{0: 1, 1: 2}) // both are wanted still
		if err := d.RequestExecutors(ctx, driver.ExecutorRequest{Totals: map[int]int{1: 3}}); err != nil {
			t.Fatal(err)
		}
		third := sizes(c, app, map[int]int{0: 1, 1: 3})
		kill(third[0][0])
		sizes(c, app, map[int]int{0: 1, 1: 3}) // the request has not named it: its total is what it was
		c.RestartMaster(leader)
		c.Settled(20 * time.Second)
	})
}
