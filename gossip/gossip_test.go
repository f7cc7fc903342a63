package gossip

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// realLimit bounds waits on loopback; they usually take a tenth of it.
const realLimit = 20 * time.Second

func TestTwoNodesFindEachOtherAndOneFailsUpdatesAndLeaves(t *testing.T) {
	a := start(t, worker("a", clusterA))
	b := start(t, worker("b", clusterA, a.LocalAddr()))
	joined := waitEvent(t, realLimit, a, MemberJoin, "b")
	want := Member{
		ID: "b", Role: RoleWorker, Addr: "127.0.0.1", SerfAddr: b.LocalAddr(), Status: StatusAlive,
		Tags: Tags{Role: RoleWorker, ID: "b", Cluster: clusterA, GRPCAddr: "127.0.0.1:7073", Incarnation: 1, Version: "test"},
	}
	if diff := cmp.Diff(want, joined.Member); diff != "" {
		t.Errorf("joined member (-want +got):\n%s", diff)
	}
	waitStatus(t, realLimit, b, "a", StatusAlive)
	if diff := cmp.Diff(map[string]Status{"a": StatusAlive, "b": StatusAlive}, seen(a.Gossip)); diff != "" {
		t.Errorf("members of a (-want +got):\n%s", diff)
	}

	tags := want.Tags
	tags.Incarnation = 2
	if err := b.SetTags(tags); err != nil {
		t.Fatal(err)
	}
	if got := waitEvent(t, realLimit, a, MemberUpdated, "b").Member.Tags; got != tags {
		t.Errorf("updated tags: got %+v, want %+v", got, tags)
	}
	if err := a.ForceRemove("b"); !errors.Is(err, ErrMemberAlive) {
		t.Errorf("removal of a member that is there: got %v, want %v", err, ErrMemberAlive)
	}

	c := start(t, worker("c", clusterA, a.LocalAddr()))
	waitEvent(t, realLimit, a, MemberJoin, "c")
	c.stop()
	waitEvent(t, realLimit, a, MemberFailed, "c")
	if err := a.ForceRemove("c"); err != nil {
		t.Fatalf("remove c: %v", err)
	}
	waitEvent(t, realLimit, a, MemberReaped, "c")
	if err := a.ForceRemove("c"); !errors.Is(err, ErrNoMember) {
		t.Errorf("removal of the forgotten: got %v, want %v", err, ErrNoMember)
	}

	ctx, cancel := context.WithTimeout(t.Context(), realLimit)
	defer cancel()
	if err := b.Leave(ctx); err != nil {
		t.Fatalf("leave: %v", err)
	}
	waitEvent(t, realLimit, a, MemberLeft, "b")
	b.stop()
	if got := seen(a.Gossip)["b"]; got != StatusLeft {
		t.Errorf("status after the goodbye: got %s, want %s", got, StatusLeft)
	}
}

func TestGO05AKilledNodeThatReturnsOnAnotherPortIsAliveAgainInTime(t *testing.T) {
	a := start(t, worker("a", clusterA))
	seeds := []string{a.LocalAddr()}
	old := start(t, worker("w1", clusterA, seeds...))
	c := start(t, worker("c", clusterA, seeds...))
	for _, viewer := range []*node{a, c} {
		waitStatus(t, realLimit, viewer, "w1", StatusAlive)
	}
	oldAddr := old.LocalAddr()
	old.stop()
	restarted := start(t, worker("w1", clusterA, seeds...))
	if restarted.LocalAddr() == oldAddr {
		t.Skip("the kernel gave the old port again")
	}
	for _, viewer := range []*node{a, c} {
		eventually(t, 35*time.Second, viewer.cfg.NodeID+" sees w1 alive at "+restarted.LocalAddr(), func() bool {
			for _, m := range viewer.Members() {
				if m.ID == "w1" && m.Status == StatusAlive && m.SerfAddr == restarted.LocalAddr() {
					return true
				}
			}
			return false
		}, func() any { return viewer.Members() })
	}
}

// lockedBuffer collects log lines from several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestANodeOfAnotherClusterIsRefusedWithOneClearLine(t *testing.T) {
	var logs lockedBuffer
	cfg := worker("a", clusterA)
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &logs, Level: hclog.Warn})
	a := start(t, cfg)
	foreign := start(t, worker("b", clusterB, a.LocalAddr()))
	young := start(t, worker("young", model.ClusterIdentity{}, a.LocalAddr()))
	waitStatus(t, realLimit, a, "young", StatusAlive)
	waitStatus(t, realLimit, young, "a", StatusAlive)
	eventually(t, realLimit, "a logs the refusal",
		func() bool { return strings.Contains(logs.String(), "gossip member refused") },
		func() any { return logs.String() })
	for _, g := range []*node{a, foreign} {
		if got := seen(g.Gossip); got["a"] != "" && got["b"] != "" {
			t.Errorf("%s took a foreigner in: %v", g.cfg.NodeID, got)
		}
	}
	text := logs.String()
	if n := strings.Count(text, "refused"); n != 1 {
		t.Errorf("lines about the refusal: got %d, want 1:\n%s", n, text)
	}
	for _, part := range []string{"cluster-a", "cluster-b", "peer=b"} {
		if !strings.Contains(text, part) {
			t.Errorf("the line does not name %q:\n%s", part, text)
		}
	}
}

func TestANodeWithoutTheKeyGetsNowhere(t *testing.T) {
	cfg := worker("a", clusterA)
	cfg.Keys = [][]byte{bytes.Repeat([]byte{1}, 32)}
	a := start(t, cfg)
	cfg = worker("b", clusterA, a.LocalAddr())
	cfg.Keys = [][]byte{bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{1}, 32)}
	start(t, cfg)
	plain := start(t, worker("plain", clusterA, a.LocalAddr()))
	cfg = worker("c", clusterA, a.LocalAddr())
	cfg.Keys = [][]byte{bytes.Repeat([]byte{1}, 32)}
	start(t, cfg)
	waitStatus(t, realLimit, a, "c", StatusAlive)
	if got := seen(a.Gossip); got["plain"] != "" {
		t.Errorf("members of a: got %v, want no plain one", got)
	}
	if got := seen(plain.Gossip); len(got) != 1 {
		t.Errorf("members of the one without a key: got %v, want only itself", got)
	}
}

// Who ends a run closes at once; whichever of both Run sees first.
func TestARunThatWasToldToEndHasNotFailed(t *testing.T) {
	g, err := New(worker("a", clusterA))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	for range 100 {
		if err := g.Run(ctx); err != nil {
			t.Fatalf("got %v, want nil", err)
		}
	}
}

func TestLifeCycleMistakesAreErrors(t *testing.T) {
	g, err := New(worker("a", clusterA, "127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("run before start: got %v, want %v", err, ErrStopped)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err == nil {
		t.Error("second start: got no error")
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, open := <-g.Events(); open {
		// The node's own join may come first; then the channel ends.
		if _, open = <-g.Events(); open {
			t.Error("events go on after close")
		}
	}
	for what, err := range map[string]error{
		"set tags": g.SetTags(Tags{Role: RoleWorker}), "leave": g.Leave(t.Context()),
		"remove": g.ForceRemove("x"), "start": g.Start(), "run": g.Run(t.Context()),
	} {
		if !errors.Is(err, ErrStopped) {
			t.Errorf("%s after close: got %v, want %v", what, err, ErrStopped)
		}
	}

	unused, err := New(worker("b", clusterA))
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.Close(); err != nil {
		t.Errorf("close without start: %v", err)
	}
	taken := start(t, worker("c", clusterA))
	cfg := worker("d", clusterA)
	cfg.BindPort = int(taken.wire.advertisedAddr().Port())
	clash, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := clash.Start(); err == nil || !strings.Contains(err.Error(), "listen for gossip streams") {
		t.Errorf("start on a taken port: got %v, want an error that names it", err)
	}
	_ = clash.Close()
	cfg = worker("e", clusterA)
	cfg.AdvertiseHost = "0.0.0.0"
	unreachable, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := unreachable.Start(); err == nil {
		t.Error("start with an unspecified advertise address: got no error")
	}
	_ = unreachable.Close()
}

func TestAllProblemsOfAConfigurationAreReported(t *testing.T) {
	_, err := New(Config{
		NodeID: "a b", BindPort: -1, AdvertisePort: 70000,
		Join: []string{"no-port", ":7072"}, Keys: [][]byte{{1}},
	})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, part := range []string{"node id", "bind port", "advertise port", `"no-port"`, `":7072"`, "key 1", "logger"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not mention %s:\n%v", part, err)
		}
	}
}
