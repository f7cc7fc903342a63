package raftnode

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// portProbe dials both ports of a leader and remembers the outcome for a few
// milliseconds, so that a question that meets the own suspicion costs nothing
// and no number of questions makes a master dial more often.
type portProbe struct {
	dial  DialFunc
	ports func(model.MasterID) (raft, grpc string, ok bool)
	limit time.Duration
	ctx   func() (context.Context, context.CancelFunc)
	log   hclog.Logger

	mu   sync.Mutex
	last *probe
}

// probe is one pair of dials.
type probe struct {
	who     suspect
	doubted bool          // a connection has closed since it began; guarded by portProbe.mu
	done    chan struct{} // closed when the fields below are set
	refused bool
	at      time.Time
}

// freshLocked reports whether the outcome is still good enough.
func (p *probe) freshLocked(now time.Time) bool {
	select {
	case <-p.done:
	default:
		return true // under way
	}
	if p.refused {
		return now.Sub(p.at) < refusedFor
	}
	return !p.doubted && now.Sub(p.at) < answeredFor
}

// doubt is told that a connection of that master has closed: whatever answered
// before may be gone.
func (p *portProbe) doubt(peer model.MasterID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && p.last.who.leader == peer {
		p.last.doubted = true
	}
}

// refused reports whether both ports of the leader refuse connections: its host
// is there, and nobody listens. Silence, an answer and an unknown address prove
// nothing. It blocks no longer than ctx.
func (p *portProbe) refused(ctx context.Context, who suspect, start func(func())) bool {
	p.mu.Lock()
	at := p.last
	if at == nil || at.who != who || !at.freshLocked(time.Now()) {
		at = &probe{who: who, done: make(chan struct{})}
		p.last = at
		start(func() { p.look(at) }) //nolint:contextcheck // others wait for the outcome too
	}
	p.mu.Unlock()
	select {
	case <-at.done:
		return at.refused
	case <-ctx.Done():
		return false
	}
}

// look makes the two dials at once.
func (p *portProbe) look(at *probe) {
	defer close(at.done)
	defer func() { at.at = time.Now() }()
	raftAddr, grpcAddr, ok := p.ports(at.who.leader)
	if !ok {
		return
	}
	ctx, cancel := p.ctx()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, p.limit)
	defer cancel()
	var grpc error
	var other sync.WaitGroup
	other.Go(func() { grpc = p.knock(ctx, grpcAddr) })
	raft := p.knock(ctx, raftAddr)
	other.Wait()
	at.refused = errors.Is(raft, syscall.ECONNREFUSED) && errors.Is(grpc, syscall.ECONNREFUSED)
	p.log.Debug("dialed the ports of the leader", "leader", string(at.who.leader), "refused", at.refused, "raft", raft, "grpc", grpc)
}

// knock returns why a port cannot be reached, or nil.
func (p *portProbe) knock(ctx context.Context, addr string) error {
	conn, err := p.dial(ctx, addr)
	if err == nil {
		_ = conn.Close() // nothing was written
	}
	return err
}
