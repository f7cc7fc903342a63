//go:build linux

package testcluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// A driver and two executors run, the leader is killed, and then everything is ended: in no sample, one each 100 ms, on no
// master, is less than nothing in use or more than is offered, and in the end it is nothing.
func TestSimAC01WhatIsInUseIsNeverLessThanNothing(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		d := submitDriver(t, c, driverSpec(false, "", "sleep", "forever"))
		driverIs(c, d, model.DriverRunning, 1, 10*time.Second)
		app := c.Submit(testcluster.Sleepers("work", 2))
		c.Running(app, 2, 10*time.Second)
		samples := 0
		sample := func() (cores int) {
			for _, m := range c.Masters() {
				v := m.View()
				cores = 0
				v.Workers(func(w *model.Worker) bool {
					u := v.Usage(w.ID)
					if u.Cores < 0 || u.MemoryMiB < 0 || u.Executors < 0 || u.Cores > w.Offer.Cores || u.MemoryMiB > w.Offer.MemoryMiB {
						t.Fatalf("%s has %+v of %s in use, which offers %d cores and %d MiB", m.Host, u, w.ID, w.Offer.Cores, w.Offer.MemoryMiB)
					}
					cores += u.Cores
					return true
				})
			}
			samples++
			return cores
		}
		if n := sample(); n != 3 {
			t.Errorf("%d cores are in use, want 3", n)
		}
		leader := c.AwaitLeader(10 * time.Second)
		c.KillMaster(leader)
		ended := make(chan error, 1)
		cl := c.Client()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := cl.KillApp(ctx, app, "test"); err != nil {
				ended <- err
				return
			}
			ended <- cl.KillDriver(ctx, d, "test")
		}()
		for range 150 {
			time.Sleep(100 * time.Millisecond)
			sample()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if n := sample(); n != 0 {
			t.Errorf("%d cores are in use at the end, want none", n)
		}
		t.Logf("%d samples", samples)
	})
}
