//go:build linux

package testcluster_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

// voters lists the voters that a master knows.
func voters(t *testing.T, m *testcluster.Master) []model.MasterID {
	t.Helper()
	servers, err := m.Servers()
	if err != nil {
		t.Fatal(err)
	}
	var out []model.MasterID
	for _, s := range servers {
		if s.Voter {
			out = append(out, s.ID)
		}
	}
	slices.Sort(out)
	return out
}

// replaced waits until exactly these masters are the members of the cluster, all with a vote, and demands of every
// configuration on the way that the voters that live are a majority.
func replaced(t *testing.T, c *testcluster.Cluster, limit time.Duration) time.Duration {
	t.Helper()
	return c.Until("the masters that run are the voters", limit, func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		servers, err := leader.Servers()
		if err != nil {
			return err
		}
		up := make(map[model.MasterID]bool)
		for _, m := range c.Masters() {
			up[m.ID()] = true
		}
		living, all := 0, 0
		for _, s := range servers {
			if s.Voter {
				all++
				if up[s.ID] {
					living++
				}
			}
		}
		if living < 2 || living <= all/2 {
			t.Fatalf("%d of %d voters live: %+v", living, all, servers)
		}
		if len(servers) != len(up) || living != len(up) {
			return fmt.Errorf("members %+v", servers)
		}
		return nil
	})
}

func TestSimHA36AWipedMasterRejoinsWithinThirtySeconds(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.Settled(20 * time.Second)
		c.Submit(testcluster.Sleepers("before", 1))
		wiped := c.Master(c.Rand.Intn(3)) // the leader at times
		old := wiped.ID()
		c.KillMaster(wiped)
		c.WipeMaster(wiped)
		time.Sleep(time.Duration(c.Rand.Int63n(int64(time.Minute))))
		c.RestartMaster(wiped)
		if wiped.ID() == old {
			t.Fatalf("came back as %s, whose disk is lost", old)
		}
		took := replaced(t, c, 30*time.Second)
		t.Logf("replaced after %s", took)
		was, ok := c.View().Master(old)
		if !ok || !was.Removed {
			t.Errorf("the old one is in the table as %+v, want it removed", was)
		}
		// It has lost the key by which it proved itself, and is known by another one.
		if now, ok := c.View().Master(wiped.ID()); !ok || now.Key == "" || now.Key == was.Key {
			t.Errorf("the new one is in the table as %+v, want a key of its own", now)
		}
		c.Submit(testcluster.Sleepers("after", 1))
		// The other two may fail one at a time: the new one is a voter in full.
		others := c.Masters(wiped)
		c.KillMaster(others[0])
		c.AwaitLeader(10 * time.Second)
		c.Submit(testcluster.Sleepers("later", 1))
	})
}

// The first to lead afterwards finds a replacement half done, or not begun.
func TestSimAReplacementSurvivesTheDeathOfTheLeader(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(5)
		leader := c.Settled(20 * time.Second)
		wiped := c.Masters(leader)[0]
		c.KillMaster(wiped)
		c.WipeMaster(wiped)
		time.Sleep(2 * time.Second)
		c.RestartMaster(wiped)
		c.Until("the new master is a member", 20*time.Second, func() error {
			servers, err := leader.Servers()
			if err == nil && !slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.ID == wiped.ID() }) {
				err = errors.New("it is not")
			}
			return err
		})
		time.Sleep(time.Duration(c.Rand.Int63n(int64(4 * time.Second))))
		c.KillMaster(leader)
		c.AwaitLeader(10*time.Second, leader)
		time.Sleep(time.Second)
		c.RestartMaster(leader)
		replaced(t, c, time.Minute)
	})
}

// A wiped master that is alone, or first, founds nothing, whatever it expects.
func TestSimAWipedMasterFoundsNoSecondCluster(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		cluster := leader.Cluster()
		c.Submit(testcluster.Sleepers("before", 1))
		all := c.Masters()
		for _, m := range all {
			c.KillMaster(m)
		}
		wiped := all[c.Rand.Intn(3)]
		c.WipeMaster(wiped)
		order := c.Rand.Perm(3)
		for _, i := range order {
			c.RestartMaster(all[i])
			time.Sleep(time.Duration(c.Rand.Int63n(int64(10 * time.Second))))
		}
		replaced(t, c, 40*time.Second)
		c.Settled(20 * time.Second)
		for _, m := range c.Masters() {
			if m.Cluster().ID != cluster.ID {
				t.Errorf("%s belongs to %s, want %s", m.Host, m.Cluster(), cluster)
			}
		}
	})
}

// The old self of a replaced master turns up on another machine with its disk.
func TestSimTheOldSelfOfAWipedMasterDoesNoHarm(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		wiped := c.Masters(leader)[0]
		old := wiped.ID()
		c.KillMaster(wiped)
		disk := c.WipeMaster(wiped)
		c.RestartMaster(wiped)
		replaced(t, c, 30*time.Second)
		leader = c.AwaitLeader(10 * time.Second)
		term, _ := leader.Belief()
		ghost := c.StartMasterOn(disk)
		if ghost.ID() != old {
			t.Fatalf("the old disk is of %s, want %s", ghost.ID(), old)
		}
		time.Sleep(2 * time.Minute)
		if now, leads := leader.Belief(); !leads || now != term {
			t.Errorf("the leader of term %d is now in term %d, leads: %v", term, now, leads)
		}
		if got := voters(t, leader); len(got) != 3 || slices.Contains(got, old) {
			t.Errorf("voters %v, want three without %s", got, old)
		}
		c.Submit(testcluster.Sleepers("after", 1))
		c.DropMaster(ghost)
	})
}

func TestSimAWipedMasterWhoseOldSelfHasMovedIsOneMore(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		moved := c.Masters(leader)[0]
		c.KillMaster(moved)
		disk := c.WipeMaster(moved)
		ghost := c.StartMasterOn(disk)
		c.Until("the moved master is known at its new address", 30*time.Second, func() error {
			servers, err := c.AwaitLeader(10 * time.Second).Servers()
			if err == nil && !slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.ID == ghost.ID() && s.Addr == ghost.RaftAddr() }) {
				err = fmt.Errorf("members %+v", servers)
			}
			return err
		})
		c.RestartMaster(moved)
		c.Expect = 4
		replaced(t, c, time.Minute)
		if got := voters(t, c.AwaitLeader(10*time.Second)); !slices.Contains(got, ghost.ID()) {
			t.Errorf("voters %v, want %s, which moved, among them", got, ghost.ID())
		}
	})
}
