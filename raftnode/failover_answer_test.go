package raftnode

import (
	"context"
	"fmt"
	"math/rand"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// question is the one that m would ask about a leader.
func (f *failoverRig) question(m *member, lead model.MasterID, term uint64) LeaderGone {
	return LeaderGone{From: m.id, Cluster: ourCluster().ClusterIdentity, Leader: lead, Term: term, Last: m.node.logEnd()}
}

func TestSimAQuestionAboutAnotherClusterTermOrLeaderIsRefused(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 5, PresetLAN)
		defer r.stop()
		lead := r.settle()
		term := lead.node.Term()
		asker, voter, other := r.standbys(lead)[0], r.standbys(lead)[1], r.standbys(lead)[2]
		good := r.question(asker, lead.id, term)
		ask := func(q LeaderGone) LeaderGoneReply {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			return voter.node.LeaderGone(ctx, q)
		}
		if reply := ask(good); reply.Gone {
			t.Error("a leader that lives: agreed")
		}
		// Only now would each of these be agreed to but for the one thing.
		r.isolateVotes()
		r.kill(lead)
		time.Sleep(time.Millisecond)
		for name, change := range map[string]func(q *LeaderGone){
			"another cluster":         func(q *LeaderGone) { q.Cluster.ID = "cluster-b" },
			"an older epoch":          func(q *LeaderGone) { q.Cluster.Epoch-- },
			"a newer epoch":           func(q *LeaderGone) { q.Cluster.Epoch++ },
			"the epoch's other half":  func(q *LeaderGone) { q.Cluster.EpochID++ },
			"no cluster":              func(q *LeaderGone) { q.Cluster = model.ClusterIdentity{} },
			"an older term":           func(q *LeaderGone) { q.Term-- },
			"a later term":            func(q *LeaderGone) { q.Term++ },
			"another leader":          func(q *LeaderGone) { q.Leader = other.id },
			"no leader":               func(q *LeaderGone) { q.Leader = "" },
			"the voter as the leader": func(q *LeaderGone) { q.Leader = voter.id },
			"a stranger's question":   func(q *LeaderGone) { q.From = "m9" },
			"nobody's question":       func(q *LeaderGone) { q.From = "" },
			"the voter's own":         func(q *LeaderGone) { q.From = voter.id },
			"the leader's own":        func(q *LeaderGone) { q.From = lead.id },
		} {
			q := good
			change(&q)
			if reply := ask(q); reply.Gone || reply.Reason == "" || reply.ID != voter.id {
				t.Errorf("%s: got %+v, want a refusal with its reason", name, reply)
			}
		}
		want := LeaderGoneReply{ID: voter.id, Gone: true, Last: voter.node.logEnd()}
		if diff := cmp.Diff(want, ask(good)); diff != "" {
			t.Errorf("the good question (-want +got):\n%s", diff)
		}
		r.net.Heal()
		r.close(lead)
		r.propose("after")
	})
}

// isolateVotes cuts the standbys from each other, so that none is elected.
func (f *failoverRig) isolateVotes() {
	for i, a := range f.members {
		for _, b := range f.members[i+1:] {
			if _, leading := a.node.Belief(); leading {
				continue
			}
			if _, leading := b.node.Belief(); leading {
				continue
			}
			f.net.Partition(a.host, b.host)
		}
	}
}

// Whatever anybody asks, however often: the leader leads on, and nobody is made
// to dial more than now and then.
func TestSimHostileQuestionsForceNoElection(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		term := lead.node.Term()
		ids := []model.MasterID{"", "m1", "m2", "m3", "m9", model.MasterID(strings.Repeat("x", 1<<20)), "\xff\x00"}
		rng := rand.New(rand.NewSource(seed))
		began := time.Now()
		for range 200 {
			var wait sync.WaitGroup
			for range 20 {
				q := LeaderGone{
					From: ids[rng.Intn(len(ids))], Leader: ids[rng.Intn(len(ids))], Cluster: ourCluster().ClusterIdentity,
					Term: term + uint64(rng.Intn(3)) - 1, Last: LogEnd{Index: rng.Uint64(), Term: rng.Uint64()},
				}
				if rng.Intn(2) == 0 {
					q.From, q.Leader, q.Term = r.standbys(lead)[0].id, lead.id, term
				}
				to := r.members[rng.Intn(len(r.members))]
				wait.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
					defer cancel()
					if reply := to.node.LeaderGone(ctx, q); reply.Gone {
						t.Errorf("%s agreed that %.10q is gone", to.id, q.Leader)
					}
				})
			}
			wait.Wait()
			time.Sleep(time.Millisecond)
		}
		took := time.Since(began)
		if dialed, most := r.dialed.Load(), int64(2*2*(took/answeredFor+1)); dialed == 0 || dialed > most {
			t.Errorf("dials in %s: got %d, want at most %d", took, dialed, most)
		}
		time.Sleep(5 * time.Second)
		r.unchanged(lead, term)
		if r.tookOver() {
			t.Error("somebody took over")
		}
	})
}

// The library keeps connections it does not use; the receiver may have been
// restarted since. An election has no second message to lose.
func TestSimAMessageOutlivesTheConnectionsOfBeforeARestart(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		first := r.settle()
		to, third := r.standbys(first)[0], r.standbys(first)[1]
		// first has pooled connections to all, third leads, to is restarted.
		if err := first.node.TransferLeadership(t.Context(), third.id); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.kill(to)
		r.revive(to)
		r.settle()
		r.kill(third)
		if next, took := r.elected(r.standbys(third), 10*time.Second); took > 10*time.Millisecond {
			t.Errorf("%s elected after %s, want within 10ms", next.id, took)
		}
		r.close(third)
		r.propose("after")
	})
}

func TestWhoseLogIsNewestGoesFirstAndThenTheLowerID(t *testing.T) {
	voters := []voter{
		{"m5", LogEnd{Index: 7, Term: 3}},
		{"m4", LogEnd{Index: 9, Term: 2}},
		{"m3", LogEnd{Index: 8, Term: 3}},
		{"m2", LogEnd{Index: 8, Term: 3}},
		{"m1", LogEnd{}},
	}
	inLine(voters)
	var got []model.MasterID
	for _, v := range voters {
		got = append(got, v.id)
	}
	if diff := cmp.Diff([]model.MasterID{"m2", "m3", "m5", "m4", "m1"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestTheTimesOfTheFailoverGrowWithThePreset(t *testing.T) {
	lan := failoverTimes{
		ask: 100 * time.Millisecond, step: 15 * time.Millisecond, grace: 5 * time.Millisecond,
		again: 40 * time.Millisecond, settle: 200 * time.Millisecond,
	}
	for preset, want := range map[string]failoverTimes{
		PresetFast: lan,
		PresetLAN:  lan,
		PresetWAN: {
			ask: 2 * time.Second / 3, step: 100 * time.Millisecond, grace: 100 * time.Millisecond / 3,
			again: 800 * time.Millisecond / 3, settle: 4 * time.Second / 3,
		},
	} {
		got := failoverTimesOf(preset)
		if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", preset, diff)
		}
	}
}

// A question that meets the own suspicion costs no dials of its own.
func TestPortsAreDialedOnceForEverybodyWhoAsksAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFailoverRig(t, 1, 1, PresetLAN)
		defer r.stop()
		var tasks sync.WaitGroup
		var dials int
		var mu sync.Mutex
		host := r.net.Host("prober")
		p := &portProbe{
			dial: func(ctx context.Context, addr string) (net.Conn, error) {
				mu.Lock()
				dials++
				mu.Unlock()
				return host.Dial(ctx, addr)
			},
			ports: func(id model.MasterID) (string, string, bool) {
				return string(id) + ":1", string(id) + ":2", id != "unknown"
			},
			limit: 25 * time.Millisecond, log: r.log,
			ctx: func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
		}
		r.net.Host("dead")
		check := func(what string, who suspect, refused bool, want int) {
			t.Helper()
			for range 10 {
				tasks.Go(func() {
					if got := p.refused(t.Context(), who, tasks.Go); got != refused {
						t.Errorf("%s: refused = %v, want %v", what, got, refused)
					}
				})
			}
			tasks.Wait()
			if dials != want {
				t.Errorf("%s: %d dials so far, want %d", what, dials, want)
			}
		}
		dead := suspect{"dead", 3}
		check("ten at once", dead, true, 2)
		check("right after", dead, true, 2)
		time.Sleep(refusedFor)
		check("a little later", dead, true, 4)
		check("in another term", suspect{"dead", 4}, true, 6)
		check("without an address", suspect{"unknown", 4}, false, 6)
		one, err := r.net.Host("dead").Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		r.open.Go(func() { acceptAll(one) })
		check("one of two ports", suspect{"dead", 5}, false, 8)
		time.Sleep(refusedFor)
		check("one of two ports, soon after", suspect{"dead", 5}, false, 8)
		p.doubt("dead")
		check("one of two ports, after a connection has closed", suspect{"dead", 5}, false, 10)
		r.net.Isolate("dead")
		check("silence", suspect{"dead", 6}, false, 12)
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	})
}
