//go:build linux

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Relay stands between workers and a master and does to the messages of their sessions what no network does to those of a
// stream: it drops some, repeats some much later, and delays the rest. A protocol that bears this bears every way in which
// sessions can break and reports and orders can cross.
type Relay struct {
	// Addr is where workers open their sessions.
	Addr string

	proc   *process
	target string
	dial   rpc.DialFunc

	mu   sync.Mutex
	rnd  *rand.Rand
	fair bool
}

// Chances and times of a relay.
const (
	relayDrop      = 0.05
	relayRepeat    = 0.05
	relayBreak     = 0.01 // of ending the session with a message
	relayDelay     = 300 * time.Millisecond
	relayLateCopy  = 5 * time.Second
	maxRelayQueued = 4096
)

// StartRelay starts a relay to master i on a host of its own.
func (c *Cluster) StartRelay(host string, i int) *Relay {
	c.t.Helper()
	l, err := c.Net.Host(host).Listen(fmt.Sprintf("%s:%d", c.Addr(host), masterGRPC))
	if err != nil {
		c.t.Fatal(err)
	}
	r := &Relay{
		Addr: l.Addr().String(), target: fmt.Sprintf("%s:%d", c.Addr(c.masters[i].Host), masterGRPC),
		dial: c.Net.Host(host).Dial, rnd: newRand(c.Rand.Int63()),
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := rpc.NewServer(rpc.ServerConfig{Listener: l, Logger: c.log.Named(host)}, rpc.Services{Workers: r})
	r.proc = begin(host, cancel, func() error { return srv.Run(ctx) })
	c.relays = append(c.relays, r)
	return r
}

// Calm makes the relay pass on everything as it comes.
func (r *Relay) Calm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fair = true
}

// fate draws what becomes of one message: whether the session ends, after which delays copies are delivered.
func (r *Relay) fate() (end bool, delays []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fair {
		return false, []time.Duration{0}
	}
	if r.rnd.Float64() < relayBreak {
		return true, nil
	}
	if r.rnd.Float64() >= relayDrop {
		delays = append(delays, time.Duration(r.rnd.Int63n(int64(relayDelay))))
	}
	if r.rnd.Float64() < relayRepeat {
		delays = append(delays, time.Duration(r.rnd.Int63n(int64(relayLateCopy))))
	}
	return false, delays
}

var errRelayBreaks = errors.New("the relay ends the session")

// WorkerSession implements rpc.WorkerSessionService.
func (r *Relay) WorkerSession(ctx context.Context, down rpc.WorkerSessionStream) error {
	conn, err := rpc.Dial(r.target, rpc.DialConfig{Dial: r.dial})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	up, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		cancel(nil)
		return errors.Join(err, conn.Close())
	}
	var loops sync.WaitGroup
	// The worker's stream ends only when this returns: its reader is left behind until then.
	go carry(ctx, r, cancel, down.Recv, relayed(ctx, cancel, &loops, func(m model.WorkerUp) error { return up.Send(m) }))
	loops.Go(func() {
		carry(ctx, r, cancel, up.Recv, relayed(ctx, cancel, &loops, func(m model.WorkerDown) error { return down.Send(m) }))
	})
	<-ctx.Done()
	_ = up.Close()
	err = conn.Close()
	loops.Wait()
	return errors.Join(context.Cause(ctx), err)
}

// letter is a message and when it is delivered.
type letter[M any] struct {
	m  M
	at time.Time
}

// carry reads messages until an error and hands each on according to its fate.
func carry[M any](ctx context.Context, r *Relay, end context.CancelCauseFunc, recv func() (M, error), out chan<- letter[M]) {
	for {
		m, err := recv()
		if err != nil {
			end(err)
			return
		}
		breaks, delays := r.fate()
		if breaks {
			end(errRelayBreaks)
			return
		}
		for _, d := range delays {
			select {
			case out <- letter[M]{m, time.Now().Add(d)}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// relayed delivers letters, each at its time: one that was delayed is overtaken.
func relayed[M any](ctx context.Context, end context.CancelCauseFunc, loops *sync.WaitGroup, send func(M) error) chan<- letter[M] {
	in := make(chan letter[M])
	loops.Go(func() {
		var waiting []letter[M]
		for {
			next := time.Hour
			for _, l := range waiting {
				next = min(next, time.Until(l.at))
			}
			timer := time.NewTimer(max(0, next))
			select {
			case l := <-in:
				waiting = append(waiting, l)
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
			if len(waiting) > maxRelayQueued {
				end(errRelayBreaks)
				return
			}
			rest := waiting[:0]
			for _, l := range waiting {
				if time.Until(l.at) > 0 {
					rest = append(rest, l)
				} else if err := send(l.m); err != nil {
					end(err)
					return
				}
			}
			waiting = rest
		}
	})
	return in
}
