package client

import (
	"math/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
)

// noPause is more than exchanges take, and less than any pause.
const noPause = time.Millisecond

// simulated runs a test in virtual time, where an exchange takes some microseconds.
func simulated(t *testing.T, test func(t *testing.T, fc *fakeCluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fc := newFakeCluster()
		fc.sim = simnet.New(rand.New(rand.NewSource(1)))
		test(t, fc)
	})
}

func TestACallAfterTheLeadersDeathGoesToTheNextMasterWithoutAPause(t *testing.T) {
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		old, next := fc.master(t, nil), fc.master(t, nil)
		fc.setLeader(old.addr)
		c := newClient(t, Config{Masters: []string{next.addr}, Dialer: fc.dialer(), Rand: seeded()})
		if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
			t.Fatal(err)
		}
		if c.leader.Leader() != old.addr {
			t.Fatalf("the client takes %s for the leader", c.leader.Leader())
		}
		old.stop()
		fc.setLeader(next.addr)
		began := time.Now()
		if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > noPause {
			t.Errorf("answered after a pause of %s", took)
		}
	})
}

func TestACallInTheMiddleOfAnElectionIsAnsweredInTheMomentSomebodyLeads(t *testing.T) {
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		a, b := fc.master(t, nil), fc.master(t, nil)
		c := newClient(t, Config{Masters: []string{a.addr, b.addr}, Dialer: fc.dialer(), Rand: seeded()})
		const election = 1234567 * time.Microsecond
		began := time.Now()
		time.AfterFunc(election, func() { fc.setLeader(b.addr) })
		if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < election || took > election+noPause {
			t.Errorf("answered after %s, want %s", took, election)
		}
	})
}

// The one that is cut off would hold the call for as long as it may.
func TestAStandbyThatIsCutOffDoesNotKeepACallThatAnotherCouldPassOn(t *testing.T) {
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		leader, standby := fc.master(t, nil), fc.master(t, nil)
		blind := fc.master(t, func(m *fakeMaster) { m.blind = true })
		fc.setLeader(leader.addr)
		c := newClient(t, Config{Masters: []string{blind.addr, standby.addr}, Dialer: fc.dialer(), Rand: seeded()})
		for range 4 { // whichever is asked first
			c.leader = NewLeaderFinder([]string{blind.addr, standby.addr}, c.childRand())
			began := time.Now()
			if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 2*recheckAfter {
				t.Errorf("answered after %s", took)
			}
		}
	})
}

// gRPC lets calls fail during a back-off of its own, up to a second.
func TestAMasterThatIsBackIsReachedAtTheNextTry(t *testing.T) {
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		fc.port = 7070
		m := fc.master(t, nil)
		m.stop()
		c := newClient(t, Config{Masters: []string{m.addr}, Dialer: fc.dialer(), Rand: seeded()})
		if _, err := c.Settings(within(t, 10*time.Second)); err == nil {
			t.Fatal("a dead master answered")
		}
		fc.master(t, nil)
		began := time.Now()
		if _, err := c.Settings(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > noPause {
			t.Errorf("answered after %s", took)
		}
	})
}
