package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

const (
	// helloTimeout bounds both hellos of a new connection.
	helloTimeout = 5 * time.Second
	// dialTimeout bounds reaching a peer, TLS included.
	dialTimeout = 5 * time.Second
	// maxInbound bounds the open connections from peers, those that have not
	// said who they are included. A peer holds at most a handful.
	maxInbound = 128
	// maxRefusalsRemembered bounds the refusals that are not logged again.
	maxRefusalsRemembered = 64
)

// helloStream puts the hearth handshake at the head of each connection of a
// StreamLayer and knows every open connection, so that closing it leaves
// nothing behind: the library forgets about connections it has accepted.
//
// It implements raft.StreamLayer; the addresses it dials are routes (see
// routeTo), so that a connection reaches the member that was meant or none.
type helloStream struct {
	inner    StreamLayer
	id       model.MasterID
	identity Identity
	log      hclog.Logger

	closing  <-chan struct{}
	within   func(time.Duration) (context.Context, context.CancelFunc) // ends with the stream
	cancel   context.CancelFunc
	accepted chan net.Conn
	tasks    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    map[*trackedConn]struct{}
	inbound  int
	links    map[model.MasterID]int                 // greeted inbound connections by who made them
	onLink   func(peer model.MasterID, opened bool) // called with mu held
	moved    chan struct{}                          // closed and replaced when links changes
	refusals map[string]struct{}
}

func newHelloStream(inner StreamLayer, id model.MasterID, identity Identity, log hclog.Logger) *helloStream {
	s := &helloStream{
		inner: inner, id: id, identity: identity, log: log,
		accepted: make(chan net.Conn),
		conns:    make(map[*trackedConn]struct{}),
		links:    make(map[model.MasterID]int),
		onLink:   func(model.MasterID, bool) {},
		moved:    make(chan struct{}),
		refusals: make(map[string]struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.closing, s.cancel = ctx.Done(), cancel
	s.within = func(limit time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, limit)
	}
	s.tasks.Go(s.acceptLoop)
	return s
}

// acceptLoop greets each connection in a goroutine of its own: a stranger who
// says nothing holds up nobody.
func (s *helloStream) acceptLoop() {
	const firstPause, lastPause = 5 * time.Millisecond, time.Second
	pause := firstPause
	for {
		conn, err := s.inner.Accept()
		if err == nil {
			pause = firstPause
			s.admit(conn)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.log.Error("accept raft connection failed", "err", err)
		select {
		case <-s.closing:
			return
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		}
	}
}

func (s *helloStream) admit(conn net.Conn) {
	tracked := s.track(conn, true)
	if tracked == nil {
		_ = conn.Close() // over the limit, or closing
		return
	}
	s.tasks.Go(func() {
		switch err := s.greetDialer(tracked); {
		case errors.Is(err, errNoWord):
			s.log.Debug("a dialer of the raft port left without a word", "peer", conn.RemoteAddr().String())
			_ = tracked.Close()
			return
		case err != nil:
			s.refuse(conn.RemoteAddr().String(), err)
			_ = tracked.Close()
			return
		}
		select {
		case s.accepted <- tracked:
		case <-s.closing:
			_ = tracked.Close()
		}
	})
}

// greetDialer reads the dialer's hello, judges it and answers.
func (s *helloStream) greetDialer(conn *trackedConn) error {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return fmt.Errorf("raft handshake: %w", err)
	}
	theirs, err := readHello(conn)
	if err != nil {
		return fmt.Errorf("raft handshake: %w", err)
	}
	ours := hello{Cluster: s.identity.Current(), From: s.id, To: theirs.From}
	refusal := s.judge(theirs)
	if refusal != nil {
		ours.Verdict, ours.Reason = verdictRefused, refusal.Error()
	}
	if _, err := conn.Write(ours.append(nil)); err != nil && refusal == nil {
		return fmt.Errorf("raft handshake with %s: %w", theirs.From, err)
	}
	if refusal != nil {
		return fmt.Errorf("master %s: %w", theirs.From, refusal)
	}
	s.link(conn, theirs.From)
	return conn.SetDeadline(time.Time{})
}

func (s *helloStream) judge(theirs hello) error {
	switch {
	case theirs.From == "":
		return fmt.Errorf("%w: the peer gives no id", model.ErrRefused)
	case theirs.From == s.id:
		return fmt.Errorf("%w: the peer claims this master's own id %s", model.ErrRefused, s.id)
	case theirs.To != s.id:
		return fmt.Errorf("%w: the peer wants master %s, this is %s", model.ErrRefused, theirs.To, s.id)
	}
	return s.identity.Check(theirs.Cluster, theirs.From)
}

// Dial implements raft.StreamLayer for a route.
func (s *helloStream) Dial(route raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, addr := splitRoute(route)
	ctx, cancel := s.within(min(timeout, dialTimeout))
	defer cancel()
	raw, err := s.inner.Dial(ctx, addr)
	if err != nil {
		return nil, unreached{fmt.Errorf("dial raft peer %s at %s: %w", to, addr, err)}
	}
	conn := s.track(raw, false)
	if conn == nil {
		return nil, joinClose(raw, raft.ErrTransportShutdown)
	}
	if err := s.greetListener(conn, to); err != nil {
		err = fmt.Errorf("raft handshake with %s at %s: %w", to, addr, err)
		if isRefusal(err) {
			s.refuse(addr, err)
		}
		return nil, joinClose(conn, unreached{err})
	}
	return conn, nil
}

// greetListener sends the hello and judges the answer.
func (s *helloStream) greetListener(conn net.Conn, to model.MasterID) error {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	ours := hello{Cluster: s.identity.Current(), From: s.id, To: to}
	if _, err := conn.Write(ours.append(nil)); err != nil {
		return err
	}
	theirs, err := readHello(conn)
	if err != nil {
		return err
	}
	if theirs.Verdict == verdictRefused {
		return fmt.Errorf("%w by the peer: %s", model.ErrRefused, strings.TrimPrefix(theirs.Reason, model.ErrRefused.Error()+": "))
	}
	if theirs.From != to {
		return fmt.Errorf("%w: master %s answers there", model.ErrRefused, theirs.From)
	}
	if err := s.identity.Check(theirs.Cluster, theirs.From); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

func isRefusal(err error) bool {
	return errors.Is(err, model.ErrRefused) || errors.Is(err, model.ErrForeignCluster) || errors.Is(err, model.ErrStaleEpoch)
}

// refuse logs a refusal once per host and reason: peers keep trying.
func (s *helloStream) refuse(remote string, err error) {
	host, _, splitErr := net.SplitHostPort(remote)
	if splitErr != nil {
		host = remote
	}
	key := host + " " + err.Error()
	s.mu.Lock()
	_, known := s.refusals[key]
	full := len(s.refusals) >= maxRefusalsRemembered
	if !known && !full && !s.closed {
		s.refusals[key] = struct{}{}
	}
	quiet := known || full || s.closed
	s.mu.Unlock()
	if quiet {
		s.log.Debug("raft connection refused", "peer", remote, "err", err)
		return
	}
	s.log.Warn("raft connection refused", "peer", remote, "err", err)
}

// Accept implements net.Listener: the next greeted connection.
func (s *helloStream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.closing:
		return nil, net.ErrClosed
	}
}

// Addr returns the advertised address.
func (s *helloStream) Addr() net.Addr { return s.inner.Addr() }

// Close stops listening, ends pending dials and closes every connection; it
// returns when nothing of it runs any more.
func (s *helloStream) Close() error {
	s.mu.Lock()
	s.closed = true
	open := make([]*trackedConn, 0, len(s.conns))
	for conn := range s.conns {
		open = append(open, conn)
	}
	s.mu.Unlock()
	s.cancel()
	err := s.inner.Close()
	var closing sync.WaitGroup
	for _, conn := range open {
		// Each on its own: a TLS connection says goodbye first, for up to 5 s.
		closing.Go(func() { _ = conn.Close() })
	}
	closing.Wait()
	s.tasks.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close raft listener: %w", err)
	}
	return nil
}

// track enters a connection in the books; nil when it must not stay open.
func (s *helloStream) track(conn net.Conn, inbound bool) *trackedConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || (inbound && s.inbound >= maxInbound) {
		return nil
	}
	tracked := &trackedConn{Conn: conn, owner: s, inbound: inbound}
	s.conns[tracked] = struct{}{}
	if inbound {
		s.inbound++
	}
	return tracked
}

func (s *helloStream) forget(conn *trackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[conn]; !ok {
		return
	}
	delete(s.conns, conn)
	if conn.inbound {
		s.inbound--
	}
	s.unlinkLocked(conn)
}

// watchLinks lets changed be told of each inbound connection of a peer that was
// greeted, and of each whose end was seen. It is called under a lock and must
// not block.
func (s *helloStream) watchLinks(changed func(peer model.MasterID, opened bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onLink = changed
}

// linked returns how many inbound connections of a peer are open, and a channel
// that is closed when that of any peer changes.
func (s *helloStream) linked(peer model.MasterID) (open int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[peer], s.moved
}

// link counts an inbound connection whose dialer has said who it is.
func (s *helloStream) link(conn *trackedConn, peer model.MasterID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[conn]; !ok {
		return // closed in the meantime
	}
	conn.peer = peer
	s.links[peer]++
	s.tellLinkLocked(peer, true)
}

// unlink counts a connection out whose end has been seen.
func (s *helloStream) unlink(conn *trackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlinkLocked(conn)
}

func (s *helloStream) unlinkLocked(conn *trackedConn) {
	peer := conn.peer
	if peer == "" {
		return
	}
	conn.peer = ""
	if s.links[peer]--; s.links[peer] == 0 {
		delete(s.links, peer)
	}
	s.tellLinkLocked(peer, false)
}

func (s *helloStream) tellLinkLocked(peer model.MasterID, opened bool) {
	if s.closed {
		return
	}
	close(s.moved)
	s.moved = make(chan struct{})
	s.onLink(peer, opened)
}

// trackedConn takes itself off its stream's books when it is closed.
type trackedConn struct {
	net.Conn
	owner   *helloStream
	inbound bool
	peer    model.MasterID // whose link it counts as; guarded by owner.mu
}

// Read reads. A connection that this node closed ends like any other, so the
// library does not report it as a fault.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.inbound {
		c.owner.unlink(c)
	}
	if errors.Is(err, net.ErrClosed) {
		return n, io.EOF
	}
	return n, err
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.owner.forget(c)
	return c.Conn.Close()
}

// routeTo builds the address of a member as the library knows it, in the
// configuration, for Dial and as the key of its connections: who is meant, and
// where. So two members may have had one address: a master that lost its data
// comes back with a new id while the old one is still listed. The last
// separator counts; no address has one.
func routeTo(id model.MasterID, addr string) raft.ServerAddress {
	return raft.ServerAddress(string(id) + routeSeparator + addr)
}

func splitRoute(route raft.ServerAddress) (id model.MasterID, addr string) {
	i := strings.LastIndex(string(route), routeSeparator)
	if i < 0 {
		return "", string(route)
	}
	return model.MasterID(route[:i]), string(route[i+len(routeSeparator):])
}

const routeSeparator = "@"
