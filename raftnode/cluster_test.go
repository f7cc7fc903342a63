package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// testIdentity is an Identity that never changes.
type testIdentity struct{ model.ClusterIdentity }

func (i testIdentity) Current() model.ClusterIdentity { return i.ClusterIdentity }

func (i testIdentity) Check(peer model.ClusterIdentity, _ model.MasterID) error {
	return i.Accepts(peer)
}

func ourCluster() testIdentity {
	return testIdentity{model.ClusterIdentity{ID: "cluster-a", Epoch: 1, EpochID: 77}}
}

// command is a command that any state accepts or refuses, but knows.
func command(request string) *replogv1.Command {
	return &replogv1.Command{
		RequestId: request,
		Kind:      &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: "nobody"}},
	}
}

// logBuffer collects the log of one test's nodes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newLog returns a logger whose lines are shown if the test fails.
func newLog(t testing.TB) (hclog.Logger, *logBuffer) {
	buf := &logBuffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(buf.String())
		}
	})
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: buf}), buf
}

// member is one master of a rig.
type member struct {
	id    model.MasterID
	dir   string
	host  string
	addr  string
	fsm   *fsm.FSM
	node  *Node // nil while it is down
	terms []Term
	mu    sync.Mutex
	wait  sync.WaitGroup
}

func (m *member) seen() []Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Term(nil), m.terms...)
}

// rig is a cluster over a simulated network. Everything in it runs in the
// bubble of its test.
type rig struct {
	t       *testing.T
	net     *simnet.Network
	log     hclog.Logger
	logs    *logBuffer
	members []*member // the test goroutine's alone
	tune    func(*Config)
	deps    func(m *member, d *Deps)           // more than every rig needs
	disk    func(m *member, what string) error // nil: a disk that works

	mu   sync.Mutex
	book map[model.MasterID]listing
}

// listing is what gossip would know of a member.
type listing struct {
	addr string
	node *Node // nil while it is down
}

const raftPort = ":7071"

// newRig builds n masters, starts them and waits for a leader.
func newRig(t *testing.T, seed int64, n int, tune func(*Config)) *rig {
	t.Helper()
	return newRigWith(t, seed, n, tune, nil)
}

// newRigWith is newRig with further dependencies.
func newRigWith(t *testing.T, seed int64, n int, tune func(*Config), deps func(*rig, *member, *Deps)) *rig {
	t.Helper()
	r := &rig{t: t, net: simnet.New(rand.New(rand.NewSource(seed))), tune: tune, book: make(map[model.MasterID]listing)}
	if deps != nil {
		r.deps = func(m *member, d *Deps) { deps(r, m, d) }
	}
	r.net.SetLatency(200*time.Microsecond, 100*time.Microsecond)
	r.log, r.logs = newLog(t)
	for i := range n {
		name := "m" + strconv.Itoa(i+1)
		r.members = append(r.members, &member{id: model.MasterID(name), dir: t.TempDir(), host: name, addr: name + raftPort})
	}
	for _, m := range r.members {
		r.start(m)
	}
	if err := r.members[0].node.Bootstrap(r.servers()); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	r.leader()
	return r
}

func (r *rig) servers() []Server {
	var out []Server
	for _, m := range r.members {
		out = append(out, Server{ID: m.id, Addr: m.addr})
	}
	return out
}

// resolve plays gossip: it knows where everybody is now.
func (r *rig) resolve(id model.MasterID) (string, bool) {
	known, ok := r.listed()[id]
	return known.addr, ok
}

func (r *rig) listed() map[model.MasterID]listing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.book)
}

// list enters what became of a member.
func (r *rig) list(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book[m.id] = listing{addr: m.addr, node: m.node}
}

// start opens a member on its host, with a new state and its data directory.
func (r *rig) start(m *member) {
	r.t.Helper()
	host := r.net.Host(m.host)
	listener, err := host.Listen(raftPort)
	if err != nil {
		r.t.Fatalf("listen on %s: %v", m.host, err)
	}
	m.fsm = fsm.New()
	cfg := Config{ID: m.id, DataDir: m.dir, Preset: PresetRig}
	if r.tune != nil {
		r.tune(&cfg)
	}
	deps := Deps{
		FSM: m.fsm, Stream: NewStream(listener, host.Dial, m.addr, StreamTLS{}), Identity: ourCluster(),
		Resolve: r.resolve, Logger: r.log.Named(string(m.id)),
		Disk: func(what string) error {
			r.mu.Lock()
			disk := r.disk
			r.mu.Unlock()
			if disk == nil {
				return nil
			}
			return disk(m, what)
		},
	}
	if r.deps != nil {
		r.deps(m, &deps)
	}
	m.node, err = Open(cfg, deps)
	if err != nil {
		r.t.Fatalf("open %s: %v", m.id, err)
	}
	r.list(m)
	node := m.node
	m.wait.Go(func() {
		for term := range node.Terms() {
			m.mu.Lock()
			m.terms = append(m.terms, term)
			m.mu.Unlock()
		}
	})
}

// crash cuts a member off like a dead process.
func (r *rig) crash(m *member) {
	r.t.Helper()
	r.net.Crash(m.host)
	r.close(m)
	r.net.Restart(m.host)
}

func (r *rig) close(m *member) {
	r.t.Helper()
	if m.node == nil {
		return
	}
	node := m.node
	m.node = nil
	r.list(m)
	if err := node.Close(); err != nil {
		r.t.Errorf("close %s: %v", m.id, err)
	}
	m.wait.Wait()
}

// stop closes everything and lets the library's last timers run out.
func (r *rig) stop() {
	for _, m := range r.members {
		r.close(m)
	}
	time.Sleep(time.Minute)
}

// eventually polls a condition in virtual time.
func eventually(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits for a member that leads and is verified by a quorum.
func (r *rig) leader() *member {
	r.t.Helper()
	var found *member
	eventually(r.t, "a leader", 30*time.Second, func() bool {
		for _, m := range r.members {
			if m.node == nil {
				continue
			}
			if _, leading := m.node.Belief(); !leading {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := m.node.VerifyLeader(ctx)
			cancel()
			if err == nil {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// propose puts a command in through the leader, whoever that is, and tries
// again as a client would.
func (r *rig) propose(request string) fsm.Result {
	r.t.Helper()
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		result, err := r.leader().node.Propose(ctx, command(request))
		cancel()
		if err == nil {
			return result
		}
		if !errors.Is(err, model.ErrNotLeader) && !errors.Is(err, model.ErrOutcomeUnknown) {
			r.t.Fatalf("propose %s: %v", request, err)
		}
	}
	r.t.Fatalf("propose %s: no luck in 20 tries", request)
	return fsm.Result{}
}

// level waits until all running members have applied the same and agree.
func (r *rig) level() {
	r.t.Helper()
	lead := r.leader()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := lead.node.Barrier(ctx); err != nil {
		r.t.Fatalf("barrier on %s: %v", lead.id, err)
	}
	want := lead.fsm.View()
	for _, m := range r.members {
		if m.node == nil {
			continue
		}
		eventually(r.t, fmt.Sprintf("%s at index %d", m.id, want.Index()), 30*time.Second, func() bool {
			return m.fsm.View().Index() == want.Index()
		})
		if got := m.fsm.View().Hash(); got != want.Hash() {
			r.t.Errorf("state hash at index %d: got %x on %s, want %x as on %s", want.Index(), got, m.id, want.Hash(), lead.id)
		}
	}
}

// simulate runs a scenario once for each seed, each in its own bubble.
// HEARTH_SIM_SEEDS says how many.
func simulate(t *testing.T, scenario func(t *testing.T, seed int64)) {
	seeds := 1
	if text := os.Getenv("HEARTH_SIM_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("HEARTH_SIM_SEEDS=%q: want a number from 1", text)
		}
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) { scenario(t, int64(seed)) })
		})
	}
}

// openLoopback opens one replica on a real port; the caller closes it.
func openLoopback(t testing.TB, cfg Config, change func(*Deps)) (*Node, *fsm.FSM, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, _ := newLog(t)
	deps := Deps{FSM: fsm.New(), Stream: NewTCPStream(listener, "", StreamTLS{}), Identity: ourCluster(), Logger: log}
	if change != nil {
		change(&deps)
	}
	n, err := Open(cfg, deps)
	if err != nil {
		_ = listener.Close()
	}
	return n, deps.FSM, err
}
