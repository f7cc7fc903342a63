package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestSimTheClusterOutlivesItsLeader(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		old := r.leader()
		start := time.Now()
		r.crash(old)
		r.propose("after")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("first write after the crash: took %s, want less than 10 s", took)
		}
		r.start(old)
		r.level()
	})
}

func TestSimAPartitionedLeaderAcknowledgesNothing(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		old := r.leader()
		r.net.Isolate(old.host)

		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				_, err := old.node.Propose(ctx, command(fmt.Sprintf("lost %d", i)))
				if !errors.Is(err, model.ErrOutcomeUnknown) && !errors.Is(err, model.ErrNotLeader) {
					t.Errorf("propose on the cut-off leader: got %v, want ErrOutcomeUnknown or ErrNotLeader", err)
				}
			})
		}
		wait.Wait()
		if err := old.node.VerifyLeader(t.Context()); err == nil {
			t.Error("the cut-off master still verified itself as leader")
		}
		r.propose("after")
		if lead := r.leader(); lead == old {
			t.Error("the cut-off master leads")
		}
		r.net.Heal()
		r.propose("healed")
		r.level()
	})
}

// HA-17: a follower that was cut off comes back without forcing the leader out.
func TestSimAFollowerThatReturnsDisturbsNobody(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		lead := r.leader()
		term := lead.node.Term()
		for _, m := range r.members {
			if m != lead {
				r.net.Isolate(m.host)
				break
			}
		}
		time.Sleep(time.Minute)
		r.net.Heal()
		time.Sleep(20 * time.Second)
		if got := lead.node.Term(); got != term {
			t.Errorf("term after the follower's return: got %d, want %d", got, term)
		}
		r.level()
	})
}

// HA-09: leadership to and fro; each term is seen as one gain, then one loss.
func TestSimEachTermIsDeliveredOnceWhileLeadershipFlaps(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		rng := rand.New(rand.NewSource(seed))
		for range 30 {
			lead := r.leader()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err := lead.node.TransferLeadership(ctx, "")
			cancel()
			if err != nil {
				t.Logf("transfer from %s: %v", lead.id, err)
			}
			time.Sleep(time.Duration(rng.Intn(50)) * time.Millisecond)
		}
		lead := r.leader()
		eventually(t, "the leader's loop agrees with Raft", time.Second, func() bool {
			seen, term := lead.seen(), lead.node.Term()
			return len(seen) > 0 && seen[len(seen)-1] == Term{Number: term, Leading: true}
		})
		r.propose("after")
		r.level()
		gained := make(map[uint64]model.MasterID)
		for _, m := range r.members {
			checkTerms(t, m, gained)
		}
		if len(gained) < 20 {
			t.Errorf("terms: got %d leaders over 30 transfers, want at least 20", len(gained))
		}
	})
}

// checkTerms demands that one member's terms rise, alternate between gain and
// loss of the same number, and that nobody else gained one of them.
func checkTerms(t *testing.T, m *member, gained map[uint64]model.MasterID) {
	t.Helper()
	seen := m.seen()
	for i, term := range seen {
		if term.Leading {
			if other, taken := gained[term.Number]; taken {
				t.Errorf("term %d: gained by %s and %s", term.Number, other, m.id)
			}
			gained[term.Number] = m.id
		}
		if i == 0 {
			continue
		}
		before := seen[i-1]
		ok := !before.Leading && term.Leading && term.Number > before.Number ||
			before.Leading && !term.Leading && term.Number == before.Number
		if !ok {
			t.Errorf("%s: terms %+v then %+v", m.id, before, term)
		}
	}
}

func TestSimAMasterReturnsOnAnotherAddress(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		moved := r.leader()
		r.crash(moved)
		r.propose("during")
		moved.host, moved.addr = "elsewhere", "elsewhere"+raftPort
		r.start(moved)
		r.propose("after")
		r.level()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.leader().node.AddVoter(ctx, moved.id, moved.addr); err != nil {
			t.Fatalf("record the new address: %v", err)
		}
		servers, index, err := r.leader().node.Servers()
		if err != nil || index == 0 {
			t.Fatalf("servers: got index %d, %v", index, err)
		}
		var want []Server
		for _, m := range r.members {
			want = append(want, Server{ID: m.id, Addr: m.addr, Voter: true})
		}
		if diff := cmp.Diff(want, servers); diff != "" {
			t.Errorf("servers (-want +got):\n%s", diff)
		}
	})
}

func TestSimAFollowerCatchesUpThroughASnapshot(t *testing.T) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newRig(t, seed, 3, func(c *Config) {
					c.LogStore, c.TrailingLogs, c.walSegmentBytes = store, 10, 2048
				})
				defer r.stop()
				lead := r.leader()
				behind := r.members[0]
				if behind == lead {
					behind = r.members[1]
				}
				r.crash(behind)
				for i := range 50 {
					r.propose(fmt.Sprintf("r%d", i))
				}
				if err := r.leader().node.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.propose("last")
				r.start(behind)
				r.level()
				if got := behind.node.Stats().SnapshotIndex; got == 0 {
					t.Error("the follower came level without a snapshot")
				}
			})
		})
	}
}

// HA-16: a removed master that does not know it upsets no election.
func TestSimARemovedMasterUpsetsNobody(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 4, nil)
		defer r.stop()
		lead := r.leader()
		gone := r.members[0]
		if gone == lead {
			gone = r.members[1]
		}
		r.net.Isolate(gone.host)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := lead.node.RemoveServer(ctx, gone.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		term := r.leader().node.Term()
		r.net.Heal()
		time.Sleep(time.Minute)
		if got := r.leader().node.Term(); got != term {
			t.Errorf("term a minute after the return: got %d, want %d", got, term)
		}
	})
}

func TestSimAThousandConcurrentCommandsShareEntries(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		lead := r.leader()
		first := lead.node.LastIndex()
		var wait sync.WaitGroup
		for i := range 1000 {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if _, err := lead.node.Propose(ctx, command(fmt.Sprintf("r%d", i))); err != nil {
					t.Errorf("propose: %v", err)
				}
			})
		}
		wait.Wait()
		if entries := lead.node.LastIndex() - first; entries > 100 {
			t.Errorf("entries for 1000 commands: got %d, want at most 100", entries)
		}
		var all []*replogv1.Command
		for i := range 100 {
			all = append(all, command(fmt.Sprintf("s%d", i)))
		}
		results, err := lead.node.ProposeAll(t.Context(), all)
		if err != nil || len(results) != len(all) {
			t.Fatalf("propose all: got %d results, %v; want %d", len(results), err, len(all))
		}
		for _, result := range results {
			if result.Index != results[0].Index {
				t.Errorf("entry of a command: got %d, want %d as the first", result.Index, results[0].Index)
			}
		}
		r.level()
	})
}

func TestSimTheClusterClockRunsOnThroughAFailover(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		start, tick := time.Now(), r.leader().node.ClusterTick()
		time.Sleep(10 * time.Second)
		r.crash(r.leader())
		r.propose("after")
		got := time.Duration(r.leader().node.ClusterTick()-tick) * time.Millisecond
		want := time.Since(start)
		if got > want+50*time.Millisecond || got < want-50*time.Millisecond {
			t.Errorf("cluster clock: advanced %s in %s", got, want)
		}
	})
}

// ST-13, ST-16: all masters die under load and come back; nothing that was
// acknowledged is missing once the barrier has passed.
func TestSimAllMastersRestartWithEverythingAcknowledged(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, func(c *Config) { c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 20, 50*time.Millisecond, 5 })
		defer r.stop()
		for round := range 3 {
			for i := range 30 {
				r.propose(fmt.Sprintf("round %d command %d", round, i))
			}
			r.level()
			want := r.leader().fsm.View()
			for _, m := range r.members {
				r.crash(m)
			}
			for _, m := range r.members {
				r.start(m)
			}
			r.level()
			if got := r.leader().fsm.View(); got.Index() != want.Index() || got.Hash() != want.Hash() {
				t.Errorf("round %d: got index %d hash %x, want %d %x", round, got.Index(), got.Hash(), want.Index(), want.Hash())
			}
		}
	})
}
