package raftnode

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// Of two standbys the one with the older log begins an election that it cannot
// win. The other one has left the leader's term with it, and no longer follows
// anybody; it takes over after one time-out of silence all the same, instead of
// waiting for the library's timers, which may take three.
func TestSimAnElectionThatCannotBeWonDelaysNoFailover(t *testing.T) {
	timeout, _ := timeoutOf(PresetLAN)
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		for range 8 {
			r.propose("before")
			lead := r.settle()
			term := lead.node.Term()
			older, newer := r.standbys(lead)[0], r.standbys(lead)[1]
			r.cut(lead, []*member{older})
			r.propose("on two of three")
			r.net.Isolate(lead.host)
			silent := time.Now()
			if err := older.node.trans.fire(func() error { return nil }, time.Second); err != nil {
				t.Fatal(err)
			}
			eventually(t, "both have left the leader's term", timeout/4, func() bool {
				return older.node.standing().state == raft.Candidate && newer.node.standing() == standing{raft.Follower, term + 1, ""}
			})
			eventually(t, "another one leads", 5*time.Second, func() bool {
				_, leading := newer.node.Belief()
				return leading
			})
			// A look comes every quarter of the time-out.
			if took := time.Since(silent); took > timeout*5/4+20*time.Millisecond {
				t.Errorf("elected after %s, want about %s", took, timeout)
			}
			r.net.Heal()
		}
		r.level()
	})
}
