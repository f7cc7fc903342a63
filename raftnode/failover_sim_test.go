package raftnode

import (
	"fmt"
	"math/rand"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestSimAKilledLeaderIsReplacedWithinMilliseconds(t *testing.T) {
	for _, c := range []struct {
		preset  string
		masters int
		kills   int
	}{{PresetLAN, 3, 1}, {PresetLAN, 5, 2}, {PresetFast, 3, 1}, {PresetRig, 3, 1}, {PresetWAN, 3, 1}, {PresetWAN, 5, 2}} {
		t.Run(fmt.Sprintf("%d masters, %s", c.masters, c.preset), func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newFailoverRig(t, seed, c.masters, c.preset)
				defer r.stop()
				for range c.kills {
					r.propose("before")
					lead := r.settle()
					term := lead.node.Term()
					r.kill(lead)
					next, took := r.elected(r.standbys(lead), 10*time.Second)
					t.Logf("elected after %s", took)
					if took > 10*time.Millisecond {
						t.Errorf("elected after %s, want at most 10ms", took)
					}
					if got := next.node.Term(); got != term+1 {
						t.Errorf("term: got %d, want %d", got, term+1)
					}
					r.close(lead)
					r.propose("after")
				}
				r.level()
			})
		})
	}
}

// A vote waits for no connection to be made.
func TestSimStandbysHaveConnectionsForTheirVotes(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetWAN)
		defer r.stop()
		const way = 40 * time.Millisecond
		r.net.SetLatency(way, 0)
		time.Sleep(2 * reachInterval)
		lead := r.settle()
		r.kill(lead)
		// The loss, two dials, the question (for which this rig dials) and its
		// two dials, the vote.
		if next, took := r.elected(r.standbys(lead), 10*time.Second); took > (1+2+2+2+2)*way+time.Millisecond {
			t.Errorf("%s elected after %s", next.id, took)
		} else {
			t.Logf("%s elected after %s", next.id, took)
		}
		r.close(lead)
		r.propose("after")
	})
}

// The master whose log is newest is elected, not the one with the lower id.
func TestSimTheNewestLogTakesOver(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		behind, ahead := r.standbys(lead)[0], r.standbys(lead)[1]
		r.fill(func(m *member, what string) error {
			if m == behind && what == "append to the log" {
				return syscall.ENOSPC
			}
			return nil
		})
		for i := range 5 {
			r.propose(fmt.Sprintf("missed by %s %d", behind.id, i))
		}
		if behind.node.LastIndex() >= ahead.node.LastIndex() {
			t.Fatalf("%s is not behind: %d, %d", behind.id, behind.node.LastIndex(), ahead.node.LastIndex())
		}
		want := ahead.node.LastIndex()
		r.kill(lead)
		r.fill(nil)
		next, took := r.elected(r.standbys(lead), 10*time.Second)
		if next != ahead || took > 10*time.Millisecond {
			t.Errorf("got %s after %s, want %s within 10ms", next.id, took, ahead.id)
		}
		r.close(lead)
		r.propose("after")
		r.level()
		if got := behind.node.CommitIndex(); got < want {
			t.Errorf("commit index: got %d, want at least %d", got, want)
		}
	})
}

// The second in line does not wait for the first, whose disk hangs.
func TestSimADiskThatHangsDoesNotHoldTheFailoverUp(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 5, PresetLAN)
		defer r.stop()
		r.propose("before")
		lead := r.settle()
		first := r.standbys(lead)[0] // equal logs: the lowest id
		release := make(chan struct{})
		r.fill(func(m *member, _ string) error {
			if m == first {
				<-release
			}
			return nil
		})
		r.kill(lead)
		next, took := r.elected(r.standbys(lead), 10*time.Second)
		t.Logf("%s elected after %s", next.id, took)
		if next == first || took > 300*time.Millisecond {
			t.Errorf("got %s after %s, want another than %s within 300ms", next.id, took, first.id)
		}
		r.fill(nil)
		close(release)
		r.close(lead)
		r.propose("after")
		r.level()
	})
}

// An election is four writes to disk: the second in line must not take
// the votes of a first that has a slow one.
func TestSimSlowDisksSplitNoVote(t *testing.T) {
	for _, write := range []time.Duration{2 * time.Millisecond, 8 * time.Millisecond, 20 * time.Millisecond} {
		for _, masters := range []int{3, 5} {
			t.Run(fmt.Sprintf("%d masters, %s", masters, write), func(t *testing.T) {
				simulate(t, func(t *testing.T, seed int64) {
					r := newFailoverRig(t, seed, masters, PresetLAN)
					defer r.stop()
					r.propose("before")
					lead := r.settle()
					term := lead.node.Term()
					r.fill(func(*member, string) error { time.Sleep(write); return nil })
					r.kill(lead)
					next, took := r.elected(r.standbys(lead), 10*time.Second)
					t.Logf("%s elected after %s", next.id, took)
					if got := next.node.Term(); got != term+1 || took > 4*write+20*time.Millisecond {
						t.Errorf("got term %d after %s, want %d within four writes", got, took, term+1)
					}
					r.close(lead)
					r.propose("after")
				})
			})
		}
	}
}

// A firewall answers one standby with resets: nobody else finds the leader gone.
func TestSimAFirewallThatResetsOneStandbyChangesNothing(t *testing.T) {
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d masters", masters), func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newFailoverRig(t, seed, masters, PresetLAN)
				defer r.stop()
				lead := r.settle()
				term := lead.node.Term()
				lonely := r.standbys(lead)[rand.New(rand.NewSource(seed)).Intn(masters-1)]
				r.net.Refuse(lead.host, lonely.host)
				for i := range 30 {
					r.propose(fmt.Sprintf("meanwhile %d", i))
					time.Sleep(time.Second)
				}
				r.unchanged(lead, term)
				if asked := r.asked.Load(); asked == 0 {
					t.Error("the standby has not even asked: the test proves nothing")
				}
				// About its connections and about its silence.
				if asked, most := r.asked.Load(), int64(2*failoverRounds*(masters-2)); asked > most {
					t.Errorf("questions about one loss: got %d, want at most %d", asked, most)
				}
				r.net.Heal()
				r.level()
				r.unchanged(lead, term)
			})
		})
	}
}

// All its ports refuse, everywhere, and one of its connections has closed: as
// long as it has another one its process lives.
func TestSimALeaderWithAnOpenConnectionIsNotGone(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		term := lead.node.Term()
		r.deafen(lead)
		for range 10 {
			for _, m := range r.standbys(lead) {
				m.node.failover.noteLink(lead.id, false)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if r.asked.Load() > 0 || r.tookOver() {
			t.Errorf("%d questions, took over: %v", r.asked.Load(), r.tookOver())
		}
		q := r.question(r.standbys(lead)[0], lead.id, term)
		if reply := r.standbys(lead)[1].node.LeaderGone(t.Context(), q); reply.Gone {
			t.Error("a standby with a connection agreed")
		}
		r.unchanged(lead, term)
	})
}

// HA-17: a standby whose link flaps, with resets or in silence, never makes
// anybody change the term.
func TestSimHA17AFlappingStandbyLinkNeverRaisesTheTerm(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		term := lead.node.Term()
		flaky := r.standbys(lead)[int(seed)%2]
		rng := rand.New(rand.NewSource(seed))
		for i := range 60 {
			switch rng.Intn(3) {
			case 0:
				r.net.Refuse(lead.host, flaky.host)
			case 1:
				r.net.Partition(lead.host, flaky.host)
			case 2:
				r.net.Reset(lead.host, flaky.host)
			}
			time.Sleep(time.Second)
			r.net.Heal()
			r.propose(fmt.Sprintf("meanwhile %d", i))
			time.Sleep(time.Second)
		}
		r.unchanged(lead, term)
		if r.tookOver() {
			t.Error("somebody took over")
		}
		r.level()

		r.kill(lead) // the flapping has used nothing up
		if next, took := r.elected(r.standbys(lead), 10*time.Second); took > 10*time.Millisecond {
			t.Errorf("%s elected after %s, want within 10ms", next.id, took)
		}
		r.close(lead)
	})
}

// A dying process closes its connections before its listeners, or after.
func TestSimAProcessThatClosesItsListenersLastIsGoneAllTheSame(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		for _, m := range r.standbys(lead) {
			r.net.Reset(lead.host, m.host)
		}
		time.Sleep(time.Millisecond)
		r.kill(lead)
		if next, took := r.elected(r.standbys(lead), 10*time.Second); took > 15*time.Millisecond {
			t.Errorf("%s elected after %s, want within 15ms", next.id, took)
		}
		r.close(lead)
	})
}

// A leader whose process is back before anybody has dialed was not seen gone.
func TestSimALeaderThatIsBackInTimeIsNotTakenForGone(t *testing.T) {
	for _, back := range []time.Duration{0, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond} {
		t.Run(back.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newFailoverRig(t, seed, 3, PresetLAN)
				defer r.stop()
				r.propose("before")
				lead := r.settle()
				term := lead.node.Term()
				r.kill(lead)
				time.Sleep(back)
				host := r.net.Restart(lead.host)
				r.listen(lead) // the new process listens before it does anything else
				raft, err := host.Listen(raftPort)
				if err != nil {
					t.Fatal(err)
				}
				r.open.Go(func() { acceptAll(raft) })
				next, took := r.elected(r.standbys(lead), 10*time.Second)
				if back == 0 && took < 300*time.Millisecond {
					t.Errorf("elected after %s although the ports answered", took)
				}
				if got := next.node.Term(); got > term+2 {
					t.Errorf("term: got %d, want at most %d", got, term+2)
				}
				r.close(lead)
				r.net.Crash(lead.host)
				r.net.Restart(lead.host)
				r.start(lead)
				r.propose("after")
				r.level()
			})
		})
	}
}

// SIGTERM: leadership is handed over before anything is closed.
func TestSimAHandOverNeedsNoFailover(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		for range 5 {
			r.propose("before")
			lead := r.settle()
			term := lead.node.Term()
			if err := lead.node.TransferLeadership(t.Context(), ""); err != nil {
				t.Fatalf("hand over: %v", err)
			}
			next, took := r.elected(r.standbys(lead), time.Second)
			if got := next.node.Term(); got != term+1 || took > 100*time.Millisecond {
				t.Errorf("got term %d after %s, want %d", got, took, term+1)
			}
			r.kill(lead)
			r.revive(lead)
			r.settle()
			if got := next.node.Term(); got != term+1 {
				t.Errorf("term after the old leader has gone and come back: got %d, want %d", got, term+1)
			}
		}
		if r.tookOver() {
			t.Error("somebody took over")
		}
	})
}

// Kills one after the other, with the dead coming back in between, as often as
// it takes to meet each order of events.
func TestSimEveryKillOfAnyLeaderIsSurvived(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		rng := rand.New(rand.NewSource(seed))
		var took []time.Duration
		for i := range 10 {
			r.propose(fmt.Sprintf("round %d", i))
			lead := r.settle()
			r.net.SetLatency(time.Duration(50+rng.Intn(500))*time.Microsecond, 200*time.Microsecond)
			r.kill(lead)
			_, d := r.elected(r.standbys(lead), 10*time.Second)
			took = append(took, d)
			time.Sleep(time.Duration(rng.Intn(50)) * time.Millisecond)
			r.revive(lead)
		}
		r.propose("last")
		r.level()
		slices.Sort(took)
		t.Logf("elected after %s", took)
		if slow := took[len(took)-1]; slow > 100*time.Millisecond {
			t.Errorf("slowest failover: %s, want at most 100ms", slow)
		}
	})
}

// elected waits for a leader among members and returns how long that took.
func (f *failoverRig) elected(among []*member, limit time.Duration) (*member, time.Duration) {
	f.t.Helper()
	began := time.Now()
	for time.Since(began) < limit {
		for _, m := range among {
			if _, leading := m.node.Belief(); leading {
				return m, time.Since(began)
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
	f.t.Fatalf("no leader within %s", limit)
	return nil, 0
}

// stop ends everything and lets the timers of the libraries run out.
func (f *failoverRig) stop() {
	for _, m := range f.members {
		f.close(m)
		f.net.Crash(m.host)
	}
	f.open.Wait()
	time.Sleep(time.Minute)
}
