package masterd

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/internal/testca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// rogue is somebody with the gossip key who speaks as a master.
type rogue struct {
	*gossip.Gossip
	end func()
}

// rogue joins gossip on a host of its own, as that id at those addresses.
func (c *simCluster) rogue(host string, like *simMaster, id model.MasterID, grpc, raft string) *rogue {
	c.t.Helper()
	tags := like.tags()
	tags.ID, tags.GRPCAddr, tags.RaftAddr = string(id), grpc, raft
	h := c.net.Host(host)
	g, err := gossip.New(gossip.Config{
		NodeID: string(id), BindHost: h.IP().String(), BindPort: 7072, Tags: tags, Join: []string{like.SerfAddr()},
		Keys: like.deps.GossipKeys, Transport: h, Logger: c.log.Named(host),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			c.t.Errorf("rogue %s: %v", host, err)
		}
	})
	running.Go(func() {
		for range g.Events() {
		}
	})
	return &rogue{Gossip: g, end: func() {
		cancel()
		if err := g.Close(); err != nil {
			c.t.Errorf("rogue %s: %v", host, err)
		}
		running.Wait()
	}}
}

// doubted waits until a master has found that gossip's word about an id is not
// borne out, for a reason with that text.
func (c *simCluster) doubted(m *simMaster, id model.MasterID, reason string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s doubts what gossip says of %s", m.host, id), 30*time.Second, func() error {
		m.claims.mu.Lock()
		defer m.claims.mu.Unlock()
		t := m.claims.tries[id]
		if t == nil || !strings.Contains(t.told, reason) {
			return fmt.Errorf("it has tried %+v", t)
		}
		return nil
	})
}

func (c *simCluster) voters(m *simMaster) []raftnode.Server {
	c.t.Helper()
	servers, _, err := m.node.Servers()
	if err != nil {
		c.t.Fatal(err)
	}
	return servers
}

// formed waits until three voters follow a leader and have settled.
func (c *simCluster) formed() (leader *simMaster, standbys []*simMaster) {
	c.t.Helper()
	for n := range c.dirs {
		c.start(n)
	}
	c.until("a cluster", time.Minute, func() error {
		var err error
		if leader, err = c.leader(); err != nil {
			return err
		}
		for _, m := range c.ms {
			if rec, ok := leader.fsm.View().Master(m.ID()); !ok || rec.Key == "" {
				return fmt.Errorf("%s is not in the table with its key", m.host)
			}
		}
		return nil
	})
	for _, m := range c.ms {
		if m != leader {
			standbys = append(standbys, m)
		}
	}
	return leader, standbys
}

// Given a rogue agent with the gossip key but no certificate of a master; then it
// never becomes a voter, no voter is moved on its word, and the quorum is
// unchanged.
func TestSimGO15WhoHasOnlyTheGossipKeyBecomesNoMasterAndMovesNone(t *testing.T) {
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		authority := testca.New(t)
		c.deps = func(n int, d *Deps) {
			src := authority.Source(t, tlsconf.RoleMaster, hostName(n), c.addr(n))
			d.ServerTLS, d.ClientTLS = src.Server(), src.Client()
			d.GossipKeys = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}
		}
		leader, standbys := c.formed()
		before := c.voters(leader)
		gone := standbys[0]
		gone.cancel()

		own := c.net.Host("r1")
		listener, err := own.Listen(net.JoinHostPort(own.IP().String(), "7070"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		at := func(host string, port int) string { return fmt.Sprintf("%s:%d", c.net.Host(host).IP(), port) }
		for _, r := range []*rogue{
			c.rogue("r1", leader, "master-r1", at("r1", 7070), at("r1", 7071)),
			c.rogue("r2", leader, "master-r2", standbys[1].GRPCAddr(), at("r2", 7071)),
			c.rogue("r3", leader, gone.ID(), at("r3", 7070), at("r3", 7071)),
		} {
			defer r.end()
		}
		c.doubted(leader, "master-r1", "ask for a proof")
		c.doubted(leader, "master-r2", fmt.Sprintf("%q answers there", standbys[1].ID()))
		c.doubted(leader, gone.ID(), "ask for a proof")
		time.Sleep(20 * time.Second)

		if now, err := c.leader(gone); err != nil || now != leader {
			t.Errorf("the leader has changed: %v", err)
		}
		for _, m := range []*simMaster{leader, standbys[1]} {
			if diff := cmp.Diff(before, c.voters(m)); diff != "" {
				t.Errorf("members of Raft at %s (-before +now):\n%s", m.host, diff)
			}
			if addr, _ := m.resolveRaft(gone.ID()); addr != gone.RaftAddr() {
				t.Errorf("%s looks for the stopped master at %s", m.host, addr)
			}
			if _, known := m.fsm.View().Master("master-r1"); known {
				t.Errorf("%s has a rogue in its table", m.host)
			}
		}
		rec := leader.record()
		rec.Version = "after"
		if err := leader.propose(t.Context(), registerMasterCommand(rec)); err != nil {
			t.Errorf("a command after it all: %v", err)
		}
	})
}

// impostor answers as a master whose key it does not have.
type impostor struct {
	rpc.PeerService
	as  model.Master
	key ed25519.PrivateKey
}

func (i impostor) Prove(_ context.Context, q rpc.ProveRequest) (rpc.ProveReply, error) {
	r := rpc.ProveReply{Master: i.as}
	r.Signature = ed25519.Sign(i.key, statement(q.Nonce, r))
	return r, nil
}

// Without certificates the key of the data directory tells a master from who
// only has its id.
func TestSimGO15WithoutTLSAMasterIsKnownByTheKeyOfItsDataDirectory(t *testing.T) {
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		leader, standbys := c.formed()
		before := c.voters(leader)
		gone := standbys[0]
		gone.cancel()

		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		h := c.net.Host("r1")
		grpc, raft := h.IP().String()+":7070", h.IP().String()+":7071"
		fake := impostor{key: private, as: model.Master{ID: gone.ID(), GRPCAddr: grpc, RaftAddr: raft, HTTPAddr: gone.HTTPAddr(), Key: string(public)}}
		listener, err := h.Listen(grpc)
		if err != nil {
			t.Fatal(err)
		}
		server := rpc.NewServer(rpc.ServerConfig{Listener: listener, Logger: c.log}, rpc.Services{Peer: fake})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		r := c.rogue("r1", leader, gone.ID(), grpc, raft)
		c.doubted(leader, gone.ID(), "another key")
		time.Sleep(20 * time.Second)
		for _, m := range []*simMaster{leader, standbys[1]} {
			if diff := cmp.Diff(before, c.voters(m)); diff != "" {
				t.Errorf("members of Raft at %s (-before +now):\n%s", m.host, diff)
			}
		}
		r.end()
	})
}
