package client

import (
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
