package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

const servicePort = ":7070"

// failoverRig is a rig whose masters have a second port, and ask each other
// over it whether their leader is gone.
type failoverRig struct {
	*rig
	asked  atomic.Int64 // questions sent
	dialed atomic.Int64 // dials of the fast failover
	open   sync.WaitGroup

	lis map[model.MasterID][]net.Listener // of the present process
}

// newFailoverRig starts n masters with a preset and waits until one leads and
// the others follow it.
func newFailoverRig(t *testing.T, seed int64, n int, preset string) *failoverRig {
	t.Helper()
	f := &failoverRig{lis: make(map[model.MasterID][]net.Listener)}
	f.rig = newRigWith(t, seed, n, func(c *Config) { c.Preset = preset }, func(r *rig, m *member, d *Deps) {
		f.rig = r
		f.listen(m)
		f.lis[m.id] = append(f.lis[m.id], d.Stream)
		d.Failover = &Failover{
			Peers: rigAsker{f, m},
			Ports: func(id model.MasterID) (string, string, bool) {
				addr, ok := r.resolve(id)
				return addr, strings.TrimSuffix(addr, raftPort) + servicePort, ok
			},
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				f.dialed.Add(1)
				return r.net.Host(m.host).Dial(ctx, addr)
			},
		}
	})
	f.settle()
	return f
}

// listen opens the second port of a member's process.
func (f *failoverRig) listen(m *member) {
	f.t.Helper()
	l, err := f.net.Host(m.host).Listen(servicePort)
	if err != nil {
		f.t.Fatalf("listen on %s: %v", m.host, err)
	}
	f.open.Go(func() { acceptAll(l) })
	f.lis[m.id] = []net.Listener{l}
}

// deafen closes the listeners of a member, and none of its connections.
func (f *failoverRig) deafen(m *member) {
	f.t.Helper()
	for _, l := range f.lis[m.id] {
		if err := l.Close(); err != nil {
			f.t.Error(err)
		}
	}
}

// acceptAll takes connections and closes them until the listener is closed.
func acceptAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// settle waits until everybody follows the same leader, and knows the log.
func (f *failoverRig) settle() *member {
	f.t.Helper()
	lead := f.leader()
	f.level()
	eventually(f.t, "everybody follows the leader", 30*time.Second, func() bool {
		for _, m := range f.members {
			if m.node == nil {
				continue
			}
			if id, _ := m.node.Leader(); id != lead.id || m.node.Term() != lead.node.Term() || m.node.LastIndex() != lead.node.LastIndex() {
				return false
			}
		}
		return true
	})
	return lead
}

// standbys returns the running members but the leader, in the order of ids.
func (f *failoverRig) standbys(lead *member) []*member {
	var out []*member
	for _, m := range f.members {
		if m != lead && m.node != nil {
			out = append(out, m)
		}
	}
	return out
}

// kill ends a member's process at once; what is left of it reaches nobody.
func (f *failoverRig) kill(m *member) { f.net.Crash(m.host) }

// fill sets what the disks do.
func (f *failoverRig) fill(disk func(m *member, what string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disk = disk
}

// revive closes what is left of a killed member and starts it anew.
func (f *failoverRig) revive(m *member) {
	f.t.Helper()
	f.close(m)
	f.net.Restart(m.host)
	f.start(m)
}

// tookOver reports whether anybody has made use of the fast failover.
func (f *failoverRig) tookOver() bool { return strings.Contains(f.logs.String(), "taking over") }

// unchanged demands that a leader still leads the term it led.
func (f *failoverRig) unchanged(lead *member, term uint64) {
	f.t.Helper()
	now, leading := lead.node.Belief()
	if now != term || !leading {
		f.t.Errorf("%s: got term %d, leading %v; want it to lead term %d on", lead.id, now, leading, term)
	}
	for _, m := range f.members {
		if m.node == nil {
			continue
		}
		if got := m.node.Term(); got != term {
			f.t.Errorf("%s: got term %d, want %d", m.id, got, term)
		}
	}
}

// rigAsker plays gRPC: it needs the peer's second port, and the peer's process.
type rigAsker struct {
	f    *failoverRig
	from *member
}

func (a rigAsker) AskLeaderGone(ctx context.Context, peer model.MasterID, q LeaderGone) (LeaderGoneReply, error) {
	a.f.asked.Add(1)
	known := a.f.listed()[peer]
	conn, err := a.f.net.Host(a.from.host).Dial(ctx, strings.TrimSuffix(known.addr, raftPort)+servicePort)
	if err != nil {
		return LeaderGoneReply{}, err
	}
	_ = conn.Close()
	if known.node == nil {
		return LeaderGoneReply{}, errors.New("nobody is there")
	}
	return known.node.LeaderGone(ctx, q), nil
}

// sendTimeoutNow orders a member to time out, over a connection of a master
// with that id, and in the name of any.
func (f *failoverRig) sendTimeoutNow(host string, as, inTheNameOf model.MasterID, to *member) error {
	f.t.Helper()
	h := f.net.Host(host)
	l, err := h.Listen(":0")
	if err != nil {
		f.t.Fatalf("listen on %s: %v", host, err)
	}
	trans := newTransport(newHelloStream(NewStream(l, h.Dial, "", StreamTLS{}), as, ourCluster(), f.log), f.resolve, onDisk, f.log)
	defer func() {
		if err := trans.Close(); err != nil {
			f.t.Error(err)
		}
	}()
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: protocolVersion, ID: []byte(inTheNameOf), Addr: []byte("x@y:1")}}
	if err := trans.TimeoutNow(raft.ServerID(to.id), routeTo(to.id, to.addr), request, &raft.TimeoutNowResponse{}); err != nil {
		return fmt.Errorf("timeout of %s: %w", to.id, err)
	}
	return nil
}
