//go:build linux

package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hearthd/hearth/internal/unixsocket"
)

// agentConn is one connection to the socket. Before its hello it may ask for nothing.
//
// Answers and events wait in a queue for the writing goroutine. Events are bounded by the entries
// there are (each is reported once as stuck and once as exited), answers by reading no further
// request while the queue is long; so an agent that is stopped for minutes holds up nobody and
// loses nothing.
type agentConn struct {
	c net.Conn

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	queue   [][]byte
	closed  bool // no more is taken into the queue
	broken  bool // what is in the queue cannot be written
}

func newAgentConn(c net.Conn) *agentConn {
	a := &agentConn{c: c}
	a.changed.L = &a.mu
	return a
}

func (a *agentConn) send(r *reply) {
	frame, err := encodeFrame(r)
	if err != nil {
		// Cannot happen: answers are bounded by listPageEntries and the limits of a request.
		frame, _ = encodeFrame(&reply{ID: r.ID, Error: &Error{ReasonInvalid, err.Error()}})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.queue = append(a.queue, frame)
		a.changed.Broadcast()
	}
}

// awaitRoom blocks while too much is unread; false means that the connection is done.
func (a *agentConn) awaitRoom() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > maxQueuedReplies && !a.closed {
		a.changed.Wait()
	}
	return !a.closed
}

// writeLoop writes the queue until it is closed and empty, then closes the connection.
func (a *agentConn) writeLoop() {
	defer func() { _ = a.c.Close() }()
	for {
		a.mu.Lock()
		for len(a.queue) == 0 && !a.closed {
			a.changed.Wait()
		}
		batch := a.queue
		a.queue = nil
		done := a.closed || a.broken
		a.changed.Broadcast()
		a.mu.Unlock()
		if len(batch) == 0 && done {
			return
		}
		if _, err := (*net.Buffers)(&batch).WriteTo(a.c); err != nil {
			a.close(false)
			return
		}
	}
}

// close ends the connection: with flush after what is queued was written or could not be in
// flushTimeout, else at once.
func (a *agentConn) close(flush bool) {
	a.mu.Lock()
	a.closed = true
	if !flush {
		a.queue, a.broken = nil, true
	}
	a.changed.Broadcast()
	a.mu.Unlock()
	if flush {
		_ = a.c.SetDeadline(time.Now().Add(flushTimeout))
	} else {
		_ = a.c.Close()
	}
}

// admit notes a new connection. Connections without a hello are few and short-lived, so that
// nobody can use up the keeper's descriptors by connecting.
func (s *Server) admit(a *agentConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unknown := len(s.conns)
	if s.agent != nil {
		unknown--
	}
	if unknown >= maxUnknownConns {
		return false
	}
	s.conns[a] = struct{}{}
	return true
}

// closeConns ends all connections after what is queued for them.
func (s *Server) closeConns() {
	s.mu.Lock()
	conns := make([]*agentConn, 0, len(s.conns))
	for a := range s.conns {
		conns = append(conns, a)
	}
	s.mu.Unlock()
	for _, a := range conns {
		a.close(true)
	}
}

// serveConn reads requests until the connection ends, and then decides what that means.
func (s *Server) serveConn(a *agentConn) {
	var writer sync.WaitGroup
	writer.Go(a.writeLoop)
	var starts sync.WaitGroup
	err := s.readRequests(a, &starts)
	clean := err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
	if !clean {
		s.log.Warn("agent connection ends", "err", err)
	}
	s.mu.Lock()
	delete(s.conns, a)
	s.mu.Unlock()
	// An answer to a refused hello is still wanted; after garbage nothing is.
	a.close(clean)
	s.detach(a)
	starts.Wait()
	writer.Wait()
}

// readRequests answers requests in their order, except that a start is answered when its process
// runs: a few of them are made at the same time, so that one opens its files while another one is
// forked. Its key is taken before the next request is read, so a kill that follows finds it.
func (s *Server) readRequests(a *agentConn, starts *sync.WaitGroup) error {
	if err := unixsocket.CheckPeer(a.c); err != nil {
		return err
	}
	_ = a.c.SetReadDeadline(time.Now().Add(helloTimeout))
	in := bufio.NewReaderSize(a.c, readBufferBytes)
	first, err := readRequest(in)
	if err != nil {
		return err
	}
	if first.Hello == nil {
		return errors.New("first request is not a hello")
	}
	_ = a.c.SetReadDeadline(time.Time{})
	if err := s.attach(a, first); err != nil {
		a.send(refusal(first.ID, err))
		return nil
	}
	slots := make(chan struct{}, parallelStarts())
	for a.awaitRoom() {
		req, err := readRequest(in)
		if err != nil {
			return err
		}
		if req.Hello != nil {
			return errors.New("second hello on one connection")
		}
		if req.Start == nil {
			a.send(s.handle(req))
			continue
		}
		e, err := s.take(req.Start)
		if err != nil {
			a.send(refusal(req.ID, err))
			continue
		}
		slots <- struct{}{}
		starts.Go(func() {
			defer func() { <-slots }()
			a.send(s.started(e, req))
		})
	}
	return nil
}

// attach makes a the agent's connection, in place of an older one, and answers the hello. The
// answer precedes every event.
func (s *Server) attach(a *agentConn, req *request) error {
	hello := req.Hello
	if !slices.Contains(hello.Versions, ProtocolVersion) {
		return &Error{ReasonVersion, fmt.Sprintf("keeper speaks version %d, agent speaks %v", ProtocolVersion, hello.Versions)}
	}
	if hello.WorkerID != s.cfg.WorkerID {
		return &Error{ReasonWrongWorker, fmt.Sprintf("keeper works for %s, agent is of %q", s.cfg.WorkerID, hello.WorkerID)}
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return &Error{ReasonShuttingDown, "keeper is ending its children"}
	}
	older := s.agent
	s.agent = a
	s.keepTo = time.Time{}
	s.disarmIdle()
	info := s.info
	a.send(&reply{ID: req.ID, Hello: &info})
	s.mu.Unlock()
	if older != nil {
		older.close(false)
	}
	s.log.Info("agent attached", "worker", s.cfg.WorkerID, "replaced_another", older != nil)
	return nil
}

// detach is told of every connection that ended. If it was the agent's, its claim ends with it
// unless it had said Keep.
func (s *Server) detach(a *agentConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agent != a {
		return
	}
	s.agent = nil
	if left := time.Until(s.keepTo); left > 0 && !s.closing {
		s.log.Info("agent gone, children are kept", "for", left.Round(time.Millisecond))
		s.armIdle(left, "the agent did not come back in time")
		return
	}
	const why = "the agent is gone"
	s.finish(ending{why: why, err: fmt.Errorf("%w: %s", ErrNoAgent, why)})
}

// push sends an event to the attached agent; mu is held.
func (s *Server) push(kind EventKind, e Entry) {
	if s.agent != nil {
		s.agent.send(&reply{Event: &Event{Kind: kind, Entry: e}})
	}
}

func refusal(id uint64, err error) *reply {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{ReasonSpawnFailed, err.Error()}
	}
	return &reply{ID: id, Error: e}
}
