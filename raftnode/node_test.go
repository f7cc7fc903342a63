package raftnode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// openSingle opens a cluster of one on real files and a real port and waits
// until it leads.
func openSingle(t *testing.T, cfg Config, change func(*Deps)) (*Node, *fsm.FSM) {
	t.Helper()
	cfg.ID, cfg.Preset = "m1", PresetFast
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	n, state, err := openLoopback(t, cfg, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := n.Bootstrap([]Server{{ID: "m1", Addr: n.trans.stream.Addr().String()}}); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	select {
	case term := <-n.Terms():
		if !term.Leading {
			t.Fatalf("first term: got %+v, want one that leads", term)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no leadership within 10 s")
	}
	return n, state
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestASingleReplicaAppliesAndRestoresWhatWasAcknowledged(t *testing.T) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			cfg := Config{DataDir: t.TempDir(), LogStore: store}
			n, state := openSingle(t, cfg, nil)
			ctx := testContext(t)
			for i := range 20 {
				if _, err := n.Propose(ctx, command("r"+string(rune('a'+i)))); err != nil {
					t.Fatal(err)
				}
				if i == 10 {
					if err := n.Snapshot(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := state.View()
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}

			var restoredAt []uint64
			again, state := openSingle(t, cfg, func(d *Deps) {
				d.OnApplied = func(index uint64, changes []fsm.Change) {
					if changes == nil {
						restoredAt = append(restoredAt, index)
					}
				}
			})
			if len(restoredAt) == 0 {
				t.Error("OnApplied was not told about the restored snapshot")
			}
			if err := again.Barrier(ctx); err != nil {
				t.Fatal(err)
			}
			got := state.View()
			if got.Index() != want.Index() || got.Hash() != want.Hash() {
				t.Errorf("after the restart: got index %d hash %x, want %d %x", got.Index(), got.Hash(), want.Index(), want.Hash())
			}
			if has, err := again.HasState(); err != nil || !has {
				t.Errorf("HasState: got %v, %v; want true", has, err)
			}
		})
	}
}

func TestASecondOpenerOfADataDirectoryGetsOneClearError(t *testing.T) {
	dir := t.TempDir()
	openSingle(t, Config{DataDir: dir}, nil)
	_, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir}, nil)
	if err == nil || !strings.Contains(err.Error(), "second master running on this data directory") {
		t.Fatalf("got %v, want an error that asks about a second master", err)
	}
}

func TestALogIsNotLeftBehindInTheOtherStore(t *testing.T) {
	for _, pair := range [][2]string{{LogStoreWAL, LogStoreBolt}, {LogStoreBolt, LogStoreWAL}} {
		dir := t.TempDir()
		n, _ := openSingle(t, Config{DataDir: dir, LogStore: pair[0]}, nil)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir, LogStore: pair[1]}, nil)
		if err == nil || !strings.Contains(err.Error(), "was written with log store") {
			t.Errorf("%s after %s: got %v, want a refusal that names the store", pair[1], pair[0], err)
		}
	}
}

func TestTheEnvelopeIsStampedWithoutTouchingTheCallersCommand(t *testing.T) {
	n, state := openSingle(t, Config{}, nil)
	cmd := command("r1")
	if _, err := n.Propose(testContext(t), cmd); err != nil {
		t.Fatal(err)
	}
	if cmd.Proposer != "" || cmd.Wall != 0 || cmd.Tick != 0 {
		t.Errorf("the caller's command was changed: %v", cmd)
	}
	cmd.Tick = 5_000_000
	if _, err := n.Propose(testContext(t), cmd); err != nil {
		t.Fatal(err)
	}
	if got := state.View().Tick(); got != 5_000_000 {
		t.Errorf("tick: got %d, want the given 5000000", got)
	}
	if got := n.ClusterTick(); got < 5_000_000 || got > 5_010_000 {
		t.Errorf("cluster clock: got %d, want it to run on from 5000000", got)
	}
}

func TestWhatCannotBeProposedIsRefusedWithItsReason(t *testing.T) {
	n, _ := openSingle(t, Config{MaxBatchBytes: 4096}, nil)
	tooLarge := command(strings.Repeat("x", 5000))
	if _, err := n.Propose(testContext(t), tooLarge); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("a large command: got %v, want ErrTooLarge", err)
	}
	if _, err := n.Propose(testContext(t), &replogv1.Command{}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("a command without a kind: got %v, want ErrInvalid", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := n.Propose(ended, command("r")); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("an ended context: got %v, want ErrUnavailable", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Propose(testContext(t), command("r")); !errors.Is(err, model.ErrNotLeader) && !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("after Close: got %v, want ErrNotLeader or ErrUnavailable", err)
	}
}

func TestABadCommandDoesNotSpoilTheEntryForOthers(t *testing.T) {
	n, _ := openSingle(t, Config{}, nil)
	good := &proposal{cmds: []*replogv1.Command{command("good")}, done: make(chan verdict, 1)}
	bad := &proposal{cmds: []*replogv1.Command{command("bad \xff")}, done: make(chan verdict, 1)}
	entry, kept := n.encode([]*proposal{bad, good})
	if diff := cmp.Diff(1, len(kept)); diff != "" || kept[0] != good || len(entry) == 0 {
		t.Fatalf("kept: %s %d bytes; want the good proposal only", diff, len(entry))
	}
	if v := <-bad.done; !errors.Is(v.err, model.ErrInvalid) {
		t.Errorf("the bad proposal: got %v, want ErrInvalid", v.err)
	}
}

func TestAnUnknownCommandStopsTheNodeAndNothingIsAppliedAfterIt(t *testing.T) {
	n, state := openSingle(t, Config{}, nil)
	if _, err := n.Propose(testContext(t), command("r1")); err != nil {
		t.Fatal(err)
	}
	want := state.View().Index()
	// A batch with a command of a kind from the future: field 99.
	future := n.raft.Apply([]byte{0x0a, 0x03, 0x9a, 0x06, 0x00}, time.Second)
	if err := future.Error(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-n.Failed():
		if !errors.Is(err, fsm.ErrBroken) {
			t.Errorf("failure: got %v, want ErrBroken", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the node did not fail within 10 s")
	}
	if err := n.raft.Apply(nil, time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	if got := state.View().Index(); got != want {
		t.Errorf("applied index: got %d, want %d as before the unknown command", got, want)
	}
	if _, err := n.Propose(testContext(t), command("r2")); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("propose after the failure: got %v, want ErrUnavailable", err)
	}
	if err := n.raft.Snapshot().Error(); err == nil {
		t.Error("a snapshot was taken although an entry is missing from the state")
	}
}

func TestConfigurationProblemsAreReportedTogether(t *testing.T) {
	_, _, err := openLoopback(t, Config{Preset: "moon", LogStore: "tape"}, func(d *Deps) { d.Logger = nil })
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`preset "moon"`, `log store "tape"`, "id", "data directory", "logger"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %s", err, want)
		}
	}
}
