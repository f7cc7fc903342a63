package raftnode

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The last heartbeat of a leader came a while before it fell silent: at most
// twice the interval, a tenth of the time-out.
func TestSimASilentLeaderIsReplacedAfterOneTimeout(t *testing.T) {
	for _, c := range []struct {
		preset  string
		masters int
	}{{PresetLAN, 3}, {PresetLAN, 5}, {PresetFast, 3}, {PresetRig, 3}, {PresetWAN, 3}} {
		timeout, _ := timeoutOf(c.preset)
		for how, fall := range map[string]func(r *failoverRig, lead *member){
			"its network is cut":    func(r *failoverRig, lead *member) { r.net.Isolate(lead.host) },
			"its machine is off":    func(r *failoverRig, lead *member) { r.net.Isolate(lead.host); r.kill(lead) },
			"it sends into nowhere": func(r *failoverRig, lead *member) { r.cut(lead, r.standbys(lead)) },
		} {
			t.Run(fmt.Sprintf("%d masters, %s, %s", c.masters, c.preset, how), func(t *testing.T) {
				simulate(t, func(t *testing.T, seed int64) {
					r := newFailoverRig(t, seed, c.masters, c.preset)
					defer r.stop()
					r.propose("before")
					lead := r.settle()
					term := lead.node.Term()
					fall(r, lead)
					next, took := r.elected(r.standbys(lead), 10*time.Second)
					t.Logf("elected after %s", took)
					if took < timeout*8/10 || took > timeout+20*time.Millisecond {
						t.Errorf("elected after %s, want about %s", took, timeout)
					}
					if got := next.node.Term(); got != term+1 {
						t.Errorf("term: got %d, want %d", got, term+1)
					}
					r.net.Heal()
					r.close(lead)
					r.propose("after")
				})
			})
		}
	}
}

// cut drops what a member sends to others, and nothing that they send.
func (f *failoverRig) cut(from *member, to []*member) {
	for _, m := range to {
		f.net.CutOneWay(from.host, m.host)
	}
}

// What a minority does not hear changes nothing, whatever it asks.
func TestSimALeaderThatAMinorityDoesNotHearLeadsOn(t *testing.T) {
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d masters", masters), func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newFailoverRig(t, seed, masters, PresetLAN)
				defer r.stop()
				lead := r.settle()
				term := lead.node.Term()
				deaf := r.standbys(lead)[:(masters-1)/2]
				for range 20 {
					r.cut(lead, deaf)
					time.Sleep(time.Second)
					r.propose("meanwhile")
					r.net.Heal()
					time.Sleep(time.Second)
				}
				if r.asked.Load() == 0 {
					t.Error("nobody has asked: the test proves nothing")
				}
				if r.tookOver() {
					t.Error("somebody took over")
				}
				r.level()
				r.unchanged(lead, term)
			})
		})
	}
}

// A voter answers by what it hears itself.
func TestSimAQuestionAboutSilenceIsAnsweredByTheOwnEars(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		term := lead.node.Term()
		asker, asked := r.standbys(lead)[0], r.standbys(lead)[1]
		q := r.question(asker, lead.id, term)
		q.Silent = true
		for range 100 {
			if reply := asked.node.LeaderGone(t.Context(), q); reply.Gone {
				t.Fatal("a standby that hears the leader agreed")
			}
			time.Sleep(7 * time.Millisecond)
		}
		r.unchanged(lead, term)

		// Nobody can begin before this one has not heard the leader for the
		// time-out: the other one does.
		r.cut(lead, []*member{asked})
		time.Sleep(260 * time.Millisecond)
		began := time.Now()
		reply := asked.node.LeaderGone(t.Context(), q)
		if !reply.Gone {
			t.Errorf("after 260 ms of silence it does not wait for the rest: %s", reply.Reason)
		}
		if waited := time.Since(began); waited > 75*time.Millisecond {
			t.Errorf("it waited for %s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		r.net.Heal()
		time.Sleep(time.Second)
		if reply := asked.node.LeaderGone(ctx, q); reply.Gone {
			t.Error("it agreed although it hears the leader again")
		}
		r.unchanged(lead, term)
	})
}

// A process that stood still gives the leader a moment before it believes what
// its clock says.
func TestAProcessThatStoodStillHearsTheLeaderOutFirst(t *testing.T) {
	const limit = 400 * time.Millisecond
	start := time.Unix(1, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := silence{limit: limit}
	if got, want := s.next(at(0), at(0)), 100*time.Millisecond; got != want {
		t.Fatalf("next look: got %s, want %s", got, want)
	}
	if got, want := s.left(at(100), at(0)), 300*time.Millisecond; got != want {
		t.Errorf("left: got %s, want %s", got, want)
	}
	if got, want := s.next(at(350), at(300)), 100*time.Millisecond; got != want {
		t.Errorf("next look: got %s, want %s", got, want)
	}
	// Planned at 450, but it runs at 5,000.
	if got, want := s.left(at(5000), at(300)), 100*time.Millisecond; got != want {
		t.Errorf("left after standing still: got %s, want %s", got, want)
	}
	if got := s.next(at(5000), at(300)); got != 100*time.Millisecond {
		t.Errorf("next look: got %s", got)
	}
	if got := s.left(at(5100), at(300)); got != 0 {
		t.Errorf("left after a moment: got %s, want 0", got)
	}
	if got, want := s.left(at(5100), at(5050)), 350*time.Millisecond; got != want {
		t.Errorf("left once it was heard: got %s, want %s", got, want)
	}
}

// Who looks for the reason of a slow failover finds it in the log.
func TestAVoterThatDoesNotAgreeSaysWhy(t *testing.T) {
	start := time.Unix(1, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := silence{limit: 400 * time.Millisecond}
	s.next(at(0), at(0))
	if got, want := s.why(at(300), at(0)), "has heard the leader 300ms ago"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	s.left(at(500), at(0)) // 400 ms late
	if got, want := s.why(at(520), at(0)), "stood still until 20ms ago"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}
