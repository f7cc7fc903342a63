package masterd

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// peerConns keeps one connection per address of a master or worker that this
// master talks to. Safe for concurrent use.
type peerConns struct {
	dial rpc.DialConfig
	log  hclog.Logger

	mu     sync.Mutex
	conns  map[string]*rpc.Conn
	closed bool
}

func newPeerConns(dial rpc.DialConfig, log hclog.Logger) *peerConns {
	return &peerConns{dial: dial, log: log, conns: make(map[string]*rpc.Conn)}
}

// get returns the connection to an address; it dials on first use of the
// connection, not here. Beyond maxPeerConns an arbitrary one is closed; a
// call on it fails and is made again.
func (p *peerConns) get(addr string) (*rpc.Conn, error) {
	if addr == "" {
		return nil, fmt.Errorf("%w: no address known", model.ErrUnavailable)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: this master is stopping", model.ErrUnavailable)
	}
	if c, ok := p.conns[addr]; ok {
		return c, nil
	}
	if len(p.conns) >= maxPeerConns {
		for old, c := range p.conns {
			delete(p.conns, old)
			if err := c.Close(); err != nil {
				p.log.Debug("closing an old connection", "addr", old, "err", err)
			}
			break
		}
	}
	c, err := rpc.Dial(addr, p.dial)
	if err != nil {
		return nil, err
	}
	p.conns[addr] = c
	return c, nil
}

// keep closes the connections to all other addresses: masters move, and an
// abandoned connection would be dialed for ever.
func (p *peerConns) keep(present map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, c := range p.conns {
		if present[addr] {
			continue
		}
		delete(p.conns, addr)
		if err := c.Close(); err != nil {
			p.log.Debug("closing an old connection", "addr", addr, "err", err)
		}
	}
}

// Close ends all connections. Idempotent.
func (p *peerConns) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for addr, c := range p.conns {
		errs = append(errs, c.Close())
		delete(p.conns, addr)
	}
	return errors.Join(errs...)
}
