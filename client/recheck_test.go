package client

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A client of the standbys is pointed at a leader that has just frozen. It
// finds out while the others elect, not after.
func TestALeaderThatFreezesCostsLittleMoreThanItsReplacement(t *testing.T) {
	const election = 600 * time.Millisecond
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		frozen, err := fc.listen()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = frozen.Close() }()
		next, other := fc.master(t, nil), fc.master(t, nil)
		fc.setLeader(frozen.Addr().String())
		time.AfterFunc(election, func() { fc.setLeader(next.addr) })
		c := newClient(t, Config{Masters: []string{next.addr, other.addr}, Dialer: fc.dialer(), Rand: seeded()})
		began := time.Now()
		if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < election || took > election+2*recheckEvery {
			t.Errorf("answered after %s, want at most %s after the election at %s", took, 2*recheckEvery, election)
		}
	})
}

// A leader that is out of breath must not be asked for a sign of life by each of
// a thousand calls that wait for it.
func TestManySlowCallsAskTogether(t *testing.T) {
	const calls, slow = 200, 2 * time.Second
	simulated(t, func(t *testing.T, fc *fakeCluster) {
		var delay atomic.Int64
		leader := fc.master(t, func(m *fakeMaster) {
			m.afterCommit = func() error {
				<-time.After(time.Duration(delay.Load()))
				return nil
			}
		})
		other := fc.master(t, nil)
		fc.setLeader(leader.addr)
		c := newClient(t, Config{Masters: []string{leader.addr, other.addr}, Dialer: fc.dialer(), Rand: seeded()})
		if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
			t.Fatal(err) // from now on the client knows a base
		}
		fc.mu.Lock()
		leader.asked, other.asked = 0, 0
		fc.mu.Unlock()
		delay.Store(int64(slow))
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if _, err := c.RegisterApp(within(t, time.Minute), spec); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		fc.mu.Lock()
		defer fc.mu.Unlock()
		if most := int(slow/recheckEvery) + 2; leader.asked == 0 || leader.asked > most || other.asked > most {
			t.Errorf("the leader was asked %d times and the other %d times, want 1 to %d", leader.asked, other.asked, most)
		}
	})
}
