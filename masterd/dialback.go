package masterd

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Named times of dial-backs.
const (
	dialBackTimeout = time.Second
	dialBackAgain   = time.Second
	firstDialBack   = 500 * time.Millisecond // of a new leader: most workers come by themselves before
	massWindow      = 2 * time.Second
	// massHold is between the first sign of a death and the verdict, so that
	// deaths at one moment are seen together.
	massHold         = 20 * time.Millisecond
	massFloorWorkers = 2
	massFloorDrivers = 1
	maxDialBacks     = 64 // at a time
)

// dialBackPace is how long after the one before each of the first dial-backs
// is: a process that is ending closes its ports one after the other.
func dialBackPace(n int) time.Duration {
	return min(massHold<<min(n, 10), dialBackAgain)
}

// departures holds who may have gone, and when that was last seen: by a session
// that closed for no known reason or by a refusal. What is older than
// massWindow does not count. Guarded by leadership.mu.
type departures[K comparable] map[K]departure

type departure struct{ first, last time.Time }

func (d departures[K]) note(k K, now time.Time) {
	g, ok := d[k]
	if !ok || now.Sub(g.last) > massWindow {
		g.first = now
	}
	g.last = now
	d[k] = g
}

// explain takes out somebody who is there after all, or was meant to go.
func (d departures[K]) explain(k K) { delete(d, k) }

// mass reports whether so many of those known went at once that it is an event
// of the network: more than floor and more than a quarter.
func (d departures[K]) mass(known func(K) bool, total, floor int, now time.Time) bool {
	gone := 0
	for k, g := range d {
		if now.Sub(g.last) > massWindow {
			delete(d, k)
			continue
		}
		gone++
		if !known(k) {
			total++
		}
	}
	return gone > max(floor, total/4)
}

// held is how long a verdict on k is held back.
func (d departures[K]) held(k K, now time.Time) time.Duration { return massHold - now.Sub(d[k].first) }

// pursueWorkerLocked starts to dial a worker back, after a while, until it has
// a session again or is gone.
func (l *leadership) pursueWorkerLocked(s *workerSeat, after time.Duration) {
	if l.closing {
		return
	}
	s.pursuit = stopped(s.pursuit)
	ctx, cancel := context.WithCancel(l.ctx)
	s.pursuit = cancel
	l.sessions.Go(func() {
		defer cancel()
		for n := 0; sleep(ctx, after) == nil; n++ {
			err := guard(l.log, "dialling a worker back", func() error { return l.dialBack(ctx, s) })
			if err != nil && ctx.Err() == nil {
				l.log.Warn("could not commit the death of a worker", "worker", string(s.id), "err", err)
			}
			after = dialBackPace(n)
		}
	})
}

// dialBack asks the worker's ports themselves, once. Both refused proves that
// its process is gone; an accepted handshake proves that it is not, and opens
// no session: the worker does that.
func (l *leadership) dialBack(ctx context.Context, s *workerSeat) error {
	w, ok := l.m.fsm.View().Worker(s.id)
	if !ok || w.State.Gone() || excused(w, l.m.node.ClusterTick()) {
		return nil
	}
	l.mu.Lock()
	dead := evidenceLocked(s, w)
	l.mu.Unlock()
	select {
	case l.dials <- struct{}{}:
		defer func() { <-l.dials }()
	case <-ctx.Done():
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, dialBackTimeout)
	defer cancel()
	if l.m.knock(ask, w.Offer.GRPCAddr) == portRefused && l.m.knock(ask, w.Offer.SerfAddr) == portRefused {
		dead, _ = dead.says(model.WorkerDead, "its process is gone: gRPC and Serf ports are refused")
		dead.processGone = true
		return l.refusedWorker(ctx, s, dead)
	}
	// A higher incarnation is a process that has taken this one's place. What
	// it has of the old one's executors is in its Hello, which it says at once,
	// and whose commit ends the others; here is nothing to decide.
	if id, err := l.identify(ask, w.Offer.GRPCAddr); err == nil && id.Worker == w.ID && id.Incarnation >= w.Incarnation {
		l.mu.Lock()
		l.fallen.explain(w.ID)
		l.mu.Unlock()
	}
	return nil
}

// refusedWorker commits the death of a worker whose ports are refused, unless
// it is one of too many. More than max(2, a quarter of the workers) that go
// within massWindow are an event of the network, and worker_timeout decides.
func (l *leadership) refusedWorker(ctx context.Context, s *workerSeat, dead verdict) error {
	now := time.Now()
	l.mu.Lock()
	l.fallen.note(s.id, now)
	hold := l.fallen.held(s.id, now)
	l.mu.Unlock()
	if err := sleep(ctx, hold); err != nil {
		return nil //nolint:nilerr // its session is open again, or the term is over
	}
	l.mu.Lock()
	mass := l.fallen.mass(func(id model.WorkerID) bool { return l.workers[id] != nil }, len(l.workers), massFloorWorkers, time.Now())
	open := s.session != nil
	l.mu.Unlock()
	if mass || open {
		return nil
	}
	return l.markWorker(ctx, dead)
}

// port is how a TCP port answers.
type port int

const (
	portUnknown port = iota // no answer, or none that proves anything
	portOpen
	portRefused // the host is there and nobody listens
)

// knock dials a TCP port and closes the connection at once.
func (m *Master) knock(ctx context.Context, addr string) port {
	c, err := m.dial(ctx, addr)
	switch {
	case err == nil:
		_ = c.Close() // nothing was written
		return portOpen
	case errors.Is(err, syscall.ECONNREFUSED):
		return portRefused
	}
	return portUnknown
}

func (l *leadership) identify(ctx context.Context, addr string) (rpc.WorkerIdentity, error) {
	conn, err := l.m.conns.get(addr)
	if err != nil {
		return rpc.WorkerIdentity{}, err
	}
	return rpc.WorkerClient(conn).Identify(ctx)
}
