//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/workerd"
)

// TestSimHA34NoScheduleLeavesASessionStuck drops, repeats, delays and overtakes the messages of worker sessions, and
// restarts workers and their leader, and then asks for the books. Each worker has a schedule of its own; a cluster of one
// master has several, because its start costs more than they do.
func TestSimHA34NoScheduleLeavesASessionStuck(t *testing.T) {
	const perCluster = 20
	schedules := 300
	if v := os.Getenv("HEARTH_SIM_SCHEDULES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("HEARTH_SIM_SCHEDULES=%q: want a number from 1", v)
		}
		schedules = n
	}
	first, _ := testcluster.Seeds(t, 1)
	for seed := range (schedules + perCluster - 1) / perCluster {
		t.Run(fmt.Sprintf("seed %d", first+seed), func(t *testing.T) {
			testcluster.RunSeed(t, int64(first+seed), func(t *testing.T, c *testcluster.Cluster) { sessionFaults(t, c, perCluster) })
		})
	}
}

func sessionFaults(t *testing.T, c *testcluster.Cluster, workers int) {
	const (
		storm = 20 * time.Second
		stuck = 30 * time.Second
	)
	c.StartMasters(1)
	c.Settled(20 * time.Second)
	relay := c.StartRelay("relay", 0)
	for i := range workers {
		host := "w" + strconv.Itoa(i+1)
		c.Net.Partition(c.Master(0).Host, host) // there is no way around the relay
		c.StartWorkerOn(host, workerd.Config{Cores: 2, MemoryMiB: 512, Masters: []string{relay.Addr}})
	}
	c.Submit(testcluster.Sleepers("ground", workers))
	load := c.StartLoad(2)
	lastSeen := make(map[*testcluster.Worker]time.Time)
	watch := func() {
		for _, w := range c.Workers() {
			status, err := w.Status(context.Background())
			if _, known := lastSeen[w]; !known || err == nil && status.Leader != "" || !c.Master(0).Up() {
				lastSeen[w] = time.Now()
			}
			if d := time.Since(lastSeen[w]); d > stuck {
				t.Errorf("%s has had no session for %s", w.Host, d)
			}
		}
	}
	for began := time.Now(); time.Since(began) < storm; time.Sleep(500 * time.Millisecond) {
		watch()
		w := c.Worker(c.Rand.Intn(workers))
		switch c.Rand.Intn(6) {
		case 0, 1:
			if w.Up() {
				c.KillWorker(w)
			}
		case 2:
			if m := c.Master(0); m.Up() && c.Rand.Intn(5) == 0 {
				c.KillMaster(m)
				time.Sleep(time.Duration(c.Rand.Int63n(int64(time.Second))))
				c.RestartMaster(m)
			}
		default:
			if !w.Up() {
				delete(lastSeen, w)
				c.RestartWorker(w)
			}
		}
	}
	load.Stop()
	relay.Calm()
	for i := range workers {
		if w := c.Worker(i); !w.Up() {
			delete(lastSeen, w)
			c.RestartWorker(w)
		}
	}
	for began := time.Now(); time.Since(began) < stuck+time.Second; time.Sleep(time.Second) {
		watch()
	}
}
