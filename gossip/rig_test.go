package gossip

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// clusterA and clusterB are two different clusters.
var (
	clusterA = model.ClusterIdentity{ID: "cluster-a", Epoch: 1, EpochID: 0xa1}
	clusterB = model.ClusterIdentity{ID: "cluster-b", Epoch: 1, EpochID: 0xb1}
)

// worker returns a configuration for loopback with quiet logs.
func worker(id string, cluster model.ClusterIdentity, seeds ...string) Config {
	return Config{
		NodeID:   id,
		BindHost: "127.0.0.1",
		Tags:     Tags{Role: RoleWorker, Cluster: cluster, GRPCAddr: "127.0.0.1:7073", Incarnation: 1, Version: "test"},
		Join:     seeds,
		Logger:   hclog.NewNullLogger(),
		Rand:     rand.New(rand.NewSource(1)),
	}
}

// node is a running Gossip of a test.
type node struct {
	*Gossip
	stop func() // ends Run and closes, as abruptly as a crash
}

// start runs a node until the test ends or stop is called.
func start(t *testing.T, cfg Config) *node {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatalf("new %s: %v", cfg.NodeID, err)
	}
	if err := g.Start(); err != nil {
		t.Fatalf("start %s: %v", cfg.NodeID, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	var once sync.Once
	n := &node{Gossip: g, stop: func() {
		once.Do(func() {
			cancel()
			if err := g.Close(); err != nil {
				t.Errorf("close %s: %v", cfg.NodeID, err)
			}
			if err := <-ran; err != nil {
				t.Errorf("run %s: %v", cfg.NodeID, err)
			}
		})
	}}
	t.Cleanup(n.stop)
	return n
}

// seen returns what a node thinks of each member.
func seen(g *Gossip) map[string]Status {
	got := map[string]Status{}
	for _, m := range g.Members() {
		got[m.ID] = m.Status
	}
	return got
}

// eventually polls a condition until it holds or the limit (real time outside a bubble) has passed.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool, state func() any) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s; state: %v", limit, what, state())
		}
	}
}

// waitStatus waits until a node sees a member in a status.
func waitStatus(t *testing.T, limit time.Duration, viewer *node, id string, want Status) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("%s sees %s %s", viewer.cfg.NodeID, id, want),
		func() bool { return seen(viewer.Gossip)[id] == want },
		func() any { return seen(viewer.Gossip) })
}

// waitEvent reads events until one has the kind and member.
func waitEvent(t *testing.T, limit time.Duration, viewer *node, kind EventKind, id string) Event {
	t.Helper()
	deadline := time.After(limit)
	var passed []string
	for {
		select {
		case ev := <-viewer.Events():
			if ev.Kind == kind && ev.Member.ID == id {
				return ev
			}
			passed = append(passed, string(ev.Kind)+" "+ev.Member.ID)
		case <-deadline:
			t.Fatalf("no event %s of %s within %v; others: %q", kind, id, limit, passed)
		}
	}
}
