//go:build linux

package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
)

// Everything between the kill and the answer at a client that knew only standbys: the loss, the question, the election,
// the barrier, the registration. Virtual time counts the messages, not the disk and not the processor.
func TestSimAKilledLeaderCostsMilliseconds(t *testing.T) {
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d masters", masters), func(t *testing.T) {
			testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
				c.StartMasters(masters)
				c.Settled(20 * time.Second)
				for i := range 4 {
					leader := c.Settled(20 * time.Second)
					time.Sleep(2*time.Second + time.Duration(c.Rand.Int63n(int64(time.Second))))
					term, _ := leader.Belief()
					cl := c.Client(c.Masters(leader)...)
					if _, err := c.TrySubmit(cl, testcluster.Sleepers(fmt.Sprintf("before %d", i), 1), time.Minute); err != nil {
						t.Fatal(err)
					}
					c.KillMaster(leader)
					began := time.Now()
					if _, err := c.TrySubmit(cl, testcluster.Sleepers(fmt.Sprintf("after %d", i), 1), time.Minute); err != nil {
						t.Fatal(err)
					}
					took := time.Since(began)
					now, _ := c.AwaitLeader(time.Second).Belief()
					t.Logf("killed %s: answered after %s, term %d after %d", leader.Host, took, now, term)
					if took > 60*time.Millisecond || now != term+1 {
						t.Errorf("answered after %s in term %d, want at most 60ms in term %d", took, now, term+1)
					}
					c.RestartMaster(leader)
				}
			})
		})
	}
}

// A firewall that answers one standby with resets is no dead leader.
func TestSimAFirewallThatResetsOneStandbyMovesNoLeader(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(1)
		leader := c.Settled(20 * time.Second)
		c.AwaitWorkers(1, 10*time.Second)
		term, _ := leader.Belief()
		standby := c.Masters(leader)[c.Rand.Intn(2)]
		for i := range 20 {
			c.Net.Refuse(leader.Host, standby.Host)
			time.Sleep(time.Second)
			if i%2 == 0 {
				c.Net.HealLink(leader.Host, standby.Host)
				time.Sleep(time.Second)
			}
			c.Submit(testcluster.Sleepers(fmt.Sprintf("meanwhile %d", i), 1))
		}
		c.Net.Heal()
		time.Sleep(5 * time.Second)
		for _, m := range c.Masters() {
			if got, leads := m.Belief(); got != term || leads != (m == leader) {
				t.Errorf("%s: term %d, leads %v; want term %d and %s leading, as before", m.Host, got, leads, term, leader.Host)
			}
		}
	})
}
