//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hearthd/hearth/demo"
)

// rejoinWithin is the report's bound for a master without a disk.
const rejoinWithin = 30 * time.Second

// There is no shared file system: each master has a directory of its own.
func TestHA36AMasterWithoutADiskRejoinsWithinThirtySeconds(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	e, ports := newEars(t), newReservation(t)
	leader, _ := e.whole(t, c)
	for _, wiped := range []*node{c.others(leader)[0], leader} { // a standby, then the leader
		old := wiped.ID
		wiped.proc.kill9(t)
		if err := os.RemoveAll(c.dataDir(wiped)); err != nil {
			t.Fatal(err)
		}
		ports.keep(t, wiped)
		began := time.Now()
		fresh := c.launchThere(t, wiped)
		eventually(t, rejoinWithin, "it serves again", func() string {
			where, err := demo.ReadEndpoints(c.dataDir(fresh), demo.ReadyFile, fresh.proc.pid)
			if err != nil {
				return err.Error()
			}
			fresh.Endpoints = where
			return ""
		})
		c.learn(t)
		if fresh.ID == old {
			t.Fatalf("came back as %s, whose disk is gone", old)
		}
		eventually(t, rejoinWithin-time.Since(began), "the new master has the vote of the old one", func() string {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			members, err := c.client.RaftServers(ctx)
			if err != nil {
				return err.Error()
			}
			voters := 0
			for _, m := range members {
				if string(m.ID) == old {
					return fmt.Sprintf("%s is still a member", old)
				}
				if m.Voter {
					voters++
				}
			}
			if voters != 3 || len(members) != 3 {
				return fmt.Sprintf("%d voters of %d members, want 3", voters, len(members))
			}
			return ""
		})
		t.Logf("rejoined after %s", time.Since(began).Round(10*time.Millisecond))
		e.whole(t, c)
	}
}
