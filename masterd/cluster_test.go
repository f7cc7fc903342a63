package masterd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// testPatience bounds every wait of these tests in real time.
const testPatience = 30 * time.Second

// testMaster is one master of a test, running in this process with real Raft,
// Serf and gRPC on loopback.
type testMaster struct {
	*Master
	dir    string
	cancel context.CancelFunc
	done   chan error
}

// logBuffer collects a test's log and prints it only on failure.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func testLogger(t *testing.T) hclog.Logger {
	t.Helper()
	buf := &logBuffer{}
	t.Cleanup(func() {
		if t.Failed() {
			buf.mu.Lock()
			defer buf.mu.Unlock()
			t.Logf("log:\n%s", buf.b.String())
		}
	})
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: buf})
}

// startMaster starts a master on kernel-chosen ports; it is stopped with the
// test.
func startMaster(t *testing.T, dir string, join []string, expect int, change ...func(*Deps)) *testMaster {
	t.Helper()
	deps := Deps{Logger: testLogger(t)}
	for _, f := range change {
		f(&deps)
	}
	m, err := New(Config{DataDir: dir, Join: join, BootstrapExpect: expect}, deps)
	if err != nil {
		t.Fatalf("start master: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tm := &testMaster{Master: m, dir: dir, cancel: cancel, done: make(chan error, 1)}
	go func() { tm.done <- m.Run(ctx) }()
	t.Cleanup(func() { tm.stop(t) })
	return tm
}

// stop ends the master gracefully and waits for it. Idempotent.
func (m *testMaster) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	select {
	case err := <-m.done:
		m.done <- nil
		if err != nil {
			t.Errorf("master %s: %v", m.ID(), err)
		}
	case <-time.After(testPatience):
		t.Errorf("master %s did not stop within %s", m.ID(), testPatience)
	}
}

// eventually polls until ok returns nil, and fails with its last error.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	deadline := time.NewTimer(testPatience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// startCluster starts n masters that found one cluster.
func startCluster(t *testing.T, n int) []*testMaster {
	t.Helper()
	var ms []*testMaster
	var seeds []string
	for range n {
		m := startMaster(t, t.TempDir(), seeds, n)
		ms = append(ms, m)
		seeds = append(seeds, m.SerfAddr())
	}
	t.Cleanup(func() { // all at once: each says goodbye for a while
		for _, m := range ms {
			m.cancel()
		}
	})
	for _, m := range ms {
		select {
		case <-m.Ready():
		case <-time.After(testPatience):
			t.Fatalf("master %s is not ready after %s", m.ID(), testPatience)
		}
	}
	eventually(t, "a leader", func() error {
		if leaderOf(ms) == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
	return ms
}

func leaderOf(ms []*testMaster) *testMaster {
	for _, m := range ms {
		if m.leading.Load() != nil {
			return m
		}
	}
	return nil
}

func newClient(t *testing.T, ms ...*testMaster) *client.Client {
	t.Helper()
	var addrs []string
	for _, m := range ms {
		addrs = append(addrs, m.GRPCAddr())
	}
	c, err := client.New(client.Config{Masters: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func sleeper(name string) model.AppSpec {
	return model.AppSpec{
		Name: name, Kind: model.AppKindCommand, Executors: 1, Restart: model.RestartAlways,
		Profile: model.Profile{Cores: 1, MemoryMiB: 64},
		Command: model.Command{Argv: []string{"sleep", "600"}},
	}
}

func TestThreeMastersFoundOneClusterAndSurviveTheirLeader(t *testing.T) {
	ms := startCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()

	clusters := map[string]bool{}
	for _, m := range ms {
		eventually(t, "settle identity", func() error {
			if m.id.Settled().IsZero() {
				return errors.New("no cluster yet")
			}
			return nil
		})
		clusters[m.id.Settled().ID] = true
	}
	if len(clusters) != 1 {
		t.Fatalf("got clusters %v, want one", clusters)
	}

	leader := leaderOf(ms)
	var standbys []*testMaster
	for _, m := range ms {
		if m != leader {
			standbys = append(standbys, m)
		}
	}
	c := newClient(t, standbys...)
	first, err := c.RegisterApp(ctx, sleeper("before"))
	if err != nil {
		t.Fatalf("register through a standby: %v", err)
	}
	leader.stop(t)
	second, err := c.RegisterApp(ctx, sleeper("after"))
	if err != nil {
		t.Fatalf("register after the leader went: %v", err)
	}
	if first.App == second.App {
		t.Fatalf("both registrations got %s", first.App)
	}
	for _, m := range standbys {
		eventually(t, "standby has both applications", func() error {
			v := m.fsm.View()
			for _, id := range []model.AppID{first.App, second.App} {
				if _, ok := v.App(id); !ok {
					return fmt.Errorf("%s lacks %s", m.ID(), id)
				}
			}
			return nil
		})
	}
	sameHashes(t, standbys)
}

// sameHashes waits until the masters stand at one index and compares hashes.
func sameHashes(t *testing.T, ms []*testMaster) {
	t.Helper()
	eventually(t, "equal state hashes at an equal index", func() error {
		index, hash := ms[0].StateHash()
		for _, m := range ms[1:] {
			i, h := m.StateHash()
			if i != index {
				return fmt.Errorf("indexes %d and %d", index, i)
			}
			if h != hash {
				return fmt.Errorf("hashes %s and %s at index %d", hash, h, i)
			}
		}
		return nil
	})
}

func TestAMasterReturnsOnAnotherAddressWithItsState(t *testing.T) {
	ms := startCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	c := newClient(t, ms...)
	reply, err := c.RegisterApp(ctx, sleeper("kept"))
	if err != nil {
		t.Fatal(err)
	}
	leader := leaderOf(ms)
	old := leader.ID()
	leader.stop(t)
	var seeds []string
	var rest []*testMaster
	for _, m := range ms {
		if m != leader {
			seeds = append(seeds, m.SerfAddr())
			rest = append(rest, m)
		}
	}
	back := startMaster(t, leader.dir, seeds, 3)
	if back.ID() != old {
		t.Fatalf("returned as %s, want %s", back.ID(), old)
	}
	eventually(t, "the returned master has the state", func() error {
		if _, ok := back.fsm.View().App(reply.App); !ok {
			return errors.New("application is missing")
		}
		return nil
	})
	if _, err := c.RegisterApp(ctx, sleeper("more")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "raft knows the new address", func() error {
		l := leaderOf(append(rest, back))
		if l == nil {
			return errors.New("no leader")
		}
		servers, _, err := l.node.Servers()
		if err != nil {
			return err
		}
		for _, s := range servers {
			if s.ID == old && s.Addr != back.RaftAddr() {
				return fmt.Errorf("raft has %s at %s, want %s", s.ID, s.Addr, back.RaftAddr())
			}
		}
		return nil
	})
	sameHashes(t, append(rest, back))
}

func TestAStoppedMasterLeavesGossipAndStaysAMember(t *testing.T) {
	ms := startCluster(t, 3)
	gone := ms[2]
	gone.stop(t)
	eventually(t, "the others see it as left", func() error {
		for _, mb := range ms[0].masterMembers() {
			if mb.ID == string(gone.ID()) && mb.Status != gossip.StatusLeft {
				return fmt.Errorf("status %s", mb.Status)
			}
		}
		return nil
	})
	eventually(t, "raft keeps it as a voter", func() error {
		l := leaderOf(ms[:2])
		if l == nil {
			return errors.New("no leader")
		}
		return l.isVoter(gone.ID())
	})
}

// A client says what it asked for, so that the master's answer need not.
func TestRefusalsSayOnceWhatWasAsked(t *testing.T) {
	c := newClient(t, startCluster(t, 1)...)
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	lost := sleeper("lost")
	lost.Queue = "none"
	_, register := c.RegisterApp(ctx, lost)
	_, drain := c.DrainWorkers(ctx, rpc.DrainRequest{Workers: rpc.WorkerChoice{IDs: []string{"worker-none"}}})
	_, undrain := c.UndrainWorkers(ctx, rpc.WorkerChoice{IDs: []string{"worker-none"}})
	_, keys := c.ChangeGossipKeys(ctx, model.GossipKeyOrder{Action: model.GossipKeyInstall, Key: "short"})
	for what, err := range map[string]error{
		"register application": register,
		"drain workers":        drain,
		"undrain workers":      undrain,
		"a gossip key":         keys,
		"set settings":         c.SetSettings(ctx, map[string]string{"none": "1"}),
		"kill application":     c.KillApp(ctx, "app-20261130061500-0009", "test"),
		"kill executors":       c.KillExecutors(ctx, rpc.KillExecutorsRequest{App: "app-20261130061500-0009", Executors: []model.ExecutorID{0}}),
		"targets of":           c.SetTargets(ctx, rpc.SetTargetsRequest{App: "app-20261130061500-0009", Token: "t", Totals: map[int]int{0: 1}}),
		"finish application":   c.FinishApp(ctx, rpc.FinishAppRequest{App: "app-20261130061500-0009", Token: "t", State: model.AppFinished}),
		"kill driver":          c.KillDriver(ctx, "driver-20261130061500-0009", "test"),
		"revoke":               c.RevokeToken(ctx, "none"),
		"remove master":        c.RemoveMaster(ctx, "master-2f0c51a9be47"),
	} {
		if err == nil || strings.Count(err.Error(), what) != 1 {
			t.Errorf("%v: want %q in it once", err, what)
		}
	}
}
