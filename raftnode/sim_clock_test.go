package raftnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// HA-38: the leader stands still while time goes on elsewhere, and its own
// clock stood still with it, so its lease looks good when it wakes. There is
// one clock in a bubble, so what happened elsewhere meanwhile happens within
// the lease: another leader is made at once, and commits.
func TestSimHA38ALeaderWhoseClockStoodStillActsOnNothing(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		r.level()
		old, next := r.leader(), r.follower()
		term := old.node.Term()

		r.net.Pause(old.host)
		if err := next.node.trans.fire(func() error { return nil }, time.Second); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another leader", 100*time.Millisecond, func() bool {
			_, leads := next.node.Belief()
			return leads
		})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := next.node.Propose(ctx, command("meanwhile")); err != nil {
			t.Fatalf("the new leader took no command: %v", err)
		}
		if now, leads := old.node.Belief(); !leads || now != term {
			t.Fatalf("the old leader is in term %d, leads: %v; it was to wake with a lease that looks good", now, leads)
		}

		woke := time.Now()
		verified := make(chan error, 1)
		go func() { verified <- old.node.VerifyLeader(ctx) }()
		last := old.node.LastIndex()
		r.net.Resume(old.host)
		if _, err := old.node.Propose(ctx, command("stale")); !errors.Is(err, model.ErrOutcomeUnknown) && !errors.Is(err, model.ErrNotLeader) {
			t.Errorf("its first write: got %v, want it not to be acknowledged", err)
		}
		if err := <-verified; err == nil {
			t.Error("a quorum confirmed its leadership")
		}
		eventually(t, "it follows", 2*time.Second-time.Since(woke), func() bool {
			_, leads := old.node.Belief()
			id, _ := old.node.Leader()
			return !leads && id == next.id
		})
		if _, err := old.node.Propose(ctx, command("later")); !errors.Is(err, model.ErrNotLeader) {
			t.Errorf("a write after that: got %v, want not the leader", err)
		}
		r.propose("after")
		r.level()
		if got := old.node.LastIndex(); got <= last {
			t.Errorf("its log ends at %d, want what the others have committed since", got)
		}
	})
}
