package masterd

import (
	"context"
	"errors"
	"time"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// warmTick is how often the connections to the other voters are looked after: a
// connection that broke is made again within it, whether or not it is used.
const warmTick = time.Second

// failover is what Raft needs to replace a leader whose process is dead.
func (m *Master) failover() *raftnode.Failover {
	return &raftnode.Failover{Peers: peerAsker{m}, Ports: m.portsOf, Dial: m.dial}
}

// portsOf returns the listeners of a master that a dead process no longer has.
func (m *Master) portsOf(id model.MasterID) (raft, grpc string, ok bool) {
	raft, ok = m.resolveRaft(id)
	grpc = m.grpcAddrOf(id)
	return raft, grpc, ok && grpc != ""
}

// openVoters prepares connections for questions that cannot wait: they are used
// for nothing else, so nothing stands before them. Calls of clients have their
// own, to be passed on to a new leader without a dial.
func (m *Master) openVoters() error {
	masters := rpc.DialConfig{TLS: tlsconf.Only(m.deps.ClientTLS, tlsconf.RoleMaster), Dial: m.dial}
	m.voters, m.forwards = newPeerConns(masters, m.log), newPeerConns(masters, m.log)
	return nil
}

func (m *Master) closeVoters() error { return errors.Join(m.voters.Close(), m.forwards.Close()) }

// keepVotersWarm holds a connection to each other voter until ctx ends.
func (m *Master) keepVotersWarm(ctx context.Context) error {
	tick := time.NewTicker(warmTick)
	defer tick.Stop()
	for {
		m.warmVoters()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *Master) warmVoters() {
	servers, _, err := m.node.Servers()
	if err != nil {
		return // without members there is nobody to ask
	}
	present := make(map[string]bool)
	for _, s := range servers {
		if addr := m.grpcAddrOf(s.ID); s.Voter && s.ID != m.id.ID() && addr != "" {
			present[addr] = true
		}
	}
	for _, conns := range []*peerConns{m.voters, m.forwards} {
		conns.keep(present)
		for addr := range present {
			conn, err := conns.get(addr)
			if err != nil {
				m.log.Debug("no connection to a voter", "addr", addr, "err", err)
				continue
			}
			conn.Warm()
		}
	}
}

// peerAsker asks other masters for the fast failover.
type peerAsker struct{ m *Master }

var _ raftnode.PeerAsker = peerAsker{}

// AskLeaderGone implements raftnode.PeerAsker. A connection of before the
// peer's restart fails at once, and is made anew within the same question.
func (p peerAsker) AskLeaderGone(ctx context.Context, peer model.MasterID, q raftnode.LeaderGone) (raftnode.LeaderGoneReply, error) {
	conn, err := p.m.voters.get(p.m.grpcAddrOf(peer))
	if err != nil {
		return raftnode.LeaderGoneReply{}, err
	}
	req := rpc.LeaderGoneRequest{
		From: q.From, Cluster: q.Cluster, Leader: q.Leader, Term: q.Term, LastIndex: q.Last.Index, LastTerm: q.Last.Term,
		Silent: q.Silent,
	}
	reply, err := rpc.PeerClient(conn).LeaderGone(ctx, req)
	if errors.Is(err, model.ErrUnavailable) && ctx.Err() == nil {
		conn.Warm()
		reply, err = rpc.PeerClient(conn).LeaderGone(ctx, req)
	}
	if err != nil {
		return raftnode.LeaderGoneReply{}, err
	}
	return raftnode.LeaderGoneReply{
		ID: reply.ID, Gone: reply.Gone, Reason: reply.Reason, Begun: reply.Begun,
		Last: raftnode.LogEnd{Index: reply.LastIndex, Term: reply.LastTerm},
	}, nil
}
