package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// together is a connection below TLS that can hold back what is written, so that
// many records cost one system call. Safe for concurrent use.
type together struct {
	net.Conn
	mu   sync.Mutex
	hold bool
	buf  []byte
}

// Write sends, or holds back up to flushBytes.
func (c *together) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hold {
		return c.Conn.Write(p) //nolint:wrapcheck // TLS knows what it is
	}
	c.buf = append(c.buf, p...)
	if len(c.buf) >= flushBytes {
		return len(p), c.flushLocked()
	}
	return len(p), nil
}

// holdBack begins to hold back; flush sends what was held back and ends that.
func (c *together) holdBack() {
	c.mu.Lock()
	c.hold = true
	c.mu.Unlock()
}

func (c *together) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	return c.flushLocked()
}

func (c *together) flushLocked() error {
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	return err //nolint:wrapcheck // by frameConn
}

// frameConn is one end of a stream of frames. Send may be called by one goroutine
// at a time, beside one that receives.
type frameConn struct {
	conn net.Conn // encrypted
	raw  *together
	in   frameReader
	out  Frames // of Send
}

func newFrameConn(conn net.Conn, raw *together, limit int) frameConn {
	return frameConn{conn: conn, raw: raw, in: frameReader{src: conn, limit: limit}}
}

// SendFrames sends messages and blocks while the peer does not read, for
// SendTimeout at most; after an error the stream is of no use.
func (c *frameConn) SendFrames(f *Frames) error { return c.write(f.buf) }

func (c *frameConn) write(b []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(SendTimeout)) // Write says what is wrong
	several := len(b) > tlsRecord
	if several {
		c.raw.holdBack()
	}
	_, err := c.conn.Write(b)
	if several {
		err = errors.Join(err, c.raw.flush())
	}
	return brokenStream("send", err)
}

// sendMessage encodes and sends one message.
func (c *frameConn) sendMessage(m any) error {
	data, err := newCodec().Marshal(m)
	if err != nil {
		return err
	}
	c.out.Reset()
	c.out.add(frameMessage, data.Materialize())
	data.Free()
	return c.write(c.out.buf)
}

// tlsRecord is how much fits into one record of TLS.
const tlsRecord = 16 << 10

// brokenStream says that a connection has broken.
func brokenStream(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return fmt.Errorf("%w: the session has ended", model.ErrUnavailable)
	}
	return fmt.Errorf("%w: %s: %w", model.ErrUnavailable, what, err)
}

// next waits for a frame that is complete.
func (c *frameConn) next() (kind byte, body []byte, err error) {
	for {
		kind, body, ok, err := c.in.next()
		if ok || err != nil {
			return kind, body, err
		}
		if err := c.in.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, nil, io.EOF
			}
			return 0, nil, brokenStream("receive", err)
		}
	}
}

// directExecutorEnd is the executor's end.
type directExecutorEnd struct {
	frameConn
	msgs downFrame
	once sync.Once
	stop func() bool // of what closes it with its context
}

// Send sends a message, in several if its results are large together.
func (s *directExecutorEnd) Send(m model.ExecutorUp) error {
	return splitUp(m, func(m model.ExecutorUp) error { return s.sendMessage(&upFrame{msg: m}) })
}

// Recv blocks for one message; several that have come together are one. See
// ExecutorSessionClient.
func (s *directExecutorEnd) Recv() (model.ExecutorDown, error) {
	clear(s.msgs.spare)
	s.msgs.msg = model.ExecutorDown{Tasks: s.msgs.spare[:0]}
	m := &s.msgs.msg
	kind, body, err := s.next()
	for first := true; ; first = false {
		if err != nil {
			return model.ExecutorDown{}, err
		}
		switch {
		case kind != frameMessage && !first:
			s.in.back(body)
			return *m, nil
		case kind == frameEnd:
			return model.ExecutorDown{}, endOfStream(body)
		case kind != frameMessage:
			return model.ExecutorDown{}, fmt.Errorf("%w: a frame of the unknown kind %d", model.ErrInvalid, kind)
		}
		plain, err := s.msgs.parse(body)
		switch {
		case err != nil:
			return model.ExecutorDown{}, err
		case !plain && !first:
			s.in.back(body)
			return *m, nil
		case !plain:
			return *m, s.msgs.unmarshalGenerated(body)
		}
		s.in.lent = s.in.lent || len(m.Tasks) > 0
		// A cancellation is for tasks before it, so nothing comes after it.
		if len(m.Tasks) >= maxMerged || len(m.Cancel) > 0 {
			return *m, nil
		}
		var ok bool
		if kind, body, ok, err = s.in.next(); err == nil && !ok {
			return *m, nil
		}
	}
}

// endOfStream decodes why the driver has ended the stream.
func endOfStream(body []byte) error {
	st := status.New(codes.Unknown, "").Proto()
	if err := proto.Unmarshal(body, st); err != nil {
		return fmt.Errorf("%w: the end of the stream: %w", model.ErrInvalid, err)
	}
	if err := status.ErrorProto(st); err != nil {
		return fromStatus(err)
	}
	return io.EOF
}

// Close ends the session. Idempotent; it may be called beside Send and Recv,
// which then fail.
func (s *directExecutorEnd) Close() error {
	s.once.Do(func() {
		s.stop()
		_ = s.raw.Conn.Close() // whoever waits for it says more
	})
	return nil
}

// openDirect opens a stream without gRPC; nil if the driver knows gRPC only.
func (c *Conn) openDirect(ctx context.Context) (*directExecutorEnd, error) {
	if c.tls == nil || c.grpcOnly.Load() {
		return nil, nil
	}
	dctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := c.dial(dctx, c.addr)
	if err != nil {
		return nil, brokenStream("connect", err)
	}
	raw := &together{Conn: conn}
	cfg := c.tls.Clone()
	cfg.NextProtos = []string{executorProtocol, "h2"}
	secured := tls.Client(raw, cfg)
	if err := secured.HandshakeContext(dctx); err != nil {
		_ = conn.Close()
		return nil, brokenStream("connect", tlsconf.Explain(cfg, err))
	}
	if secured.ConnectionState().NegotiatedProtocol != executorProtocol {
		c.grpcOnly.Store(true)
		_ = secured.Close()
		return nil, nil
	}
	s := &directExecutorEnd{frameConn: newFrameConn(secured, raw, MaxReplyBytes)}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return s, nil
}

// directDriverEnd is the driver's end.
type directDriverEnd struct {
	frameConn
	msgs  upFrame
	spare spareLists
	// reading is full while somebody reads. It is no mutex because who waits for a
	// reader waits for the network: in virtual time, a mutex would stop the clock.
	reading chan struct{}
	closed  bool // guarded by reading: what comes in is thrown away
}

// Send sends a message, in several if its tasks are large together: what
// comes with the tasks goes first.
func (s *directDriverEnd) Send(m model.ExecutorDown) error {
	return splitDown(m, func(m model.ExecutorDown) error { return s.sendMessage(&downFrame{msg: m}) })
}

// Recv blocks for one message; results that have come together are one.
func (s *directDriverEnd) Recv() (model.ExecutorUp, error) {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	if s.closed {
		return model.ExecutorUp{}, brokenStream("receive", net.ErrClosed)
	}
	s.msgs.msg = model.ExecutorUp{Results: s.spare.get()}
	m := &s.msgs.msg
	kind, body, err := s.next()
	for first := true; ; first = false {
		switch {
		case err != nil:
			return model.ExecutorUp{}, err
		case kind != frameMessage:
			return model.ExecutorUp{}, fmt.Errorf("%w: a frame of the unknown kind %d", model.ErrInvalid, kind)
		}
		plain, err := s.msgs.parse(body)
		switch {
		case err != nil:
			return model.ExecutorUp{}, err
		case !plain && !first:
			s.in.back(body)
			return *m, nil
		case !plain:
			s.spare.put(m.Results)
			err := s.msgs.unmarshalGenerated(body)
			return *m, err
		}
		s.in.lent = s.in.lent || len(m.Results) > 0
		if len(m.Results) >= maxMerged {
			return *m, nil
		}
		var ok bool
		if kind, body, ok, err = s.in.next(); err == nil && !ok {
			return *m, nil
		}
	}
}

// Free takes the list of results of a message back, but not what they hold. It may
// be called beside everything else.
func (s *directDriverEnd) Free(results []model.TaskResult) { s.spare.put(results) }

// spareLists are lists of results for the next messages. Safe for concurrent use.
type spareLists struct {
	mu    sync.Mutex
	lists [][]model.TaskResult
	size  int // of all together
}

func (l *spareLists) get() []model.TaskResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.lists)
	if n == 0 {
		return make([]model.TaskResult, 0, leastResults)
	}
	out := l.lists[n-1]
	l.lists = slices.Delete(l.lists, n-1, n)
	l.size -= cap(out)
	return out
}

func (l *spareLists) put(list []model.TaskResult) {
	if cap(list) == 0 {
		return
	}
	clear(list)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+cap(list) <= maxSpareResults {
		l.lists = append(l.lists, list[:0])
		l.size += cap(list)
	}
}

// finish tells the executor why the stream ends, gives it lingerTimeout to take
// that, and closes the connection. What it still sends is thrown away: a
// connection that is closed with something unread in it loses what was sent last.
func (s *directDriverEnd) finish(why error) {
	deadline := time.Now().Add(lingerTimeout)
	st, _ := status.FromError(toStatus(why))
	if body, err := proto.Marshal(st.Proto()); err == nil {
		s.out.Reset()
		s.out.add(frameEnd, body)
		_ = s.conn.SetDeadline(deadline)
		if _, err := s.conn.Write(s.out.buf); err == nil {
			s.drain()
		}
	}
	_ = s.raw.Conn.Close()
}

func (s *directDriverEnd) drain() {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	s.closed = true
	scrap := make([]byte, minFrameRead)
	for {
		if _, err := s.conn.Read(scrap); err != nil {
			return // its end, or the deadline
		}
	}
}

// directCredentials hand the connections of executors that speak frames to the
// server and leave all others to gRPC.
type directCredentials struct {
	credentials.TransportCredentials
	s *Server
}

// ServerHandshake makes the handshake of an accepted connection.
func (d directCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	raw := &together{Conn: conn}
	secured, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return secured, info, err //nolint:wrapcheck // gRPC's own
	}
	if t, ok := info.(credentials.TLSInfo); !ok || t.State.NegotiatedProtocol != executorProtocol {
		return secured, info, nil
	}
	end := &directDriverEnd{frameConn: newFrameConn(secured, raw, MaxMessageBytes), reading: make(chan struct{}, 1)}
	if !d.s.direct.start(func() { d.s.serveDirect(end, info) }) {
		_ = conn.Close()
	}
	return nil, nil, credentials.ErrConnDispatched //nolint:wrapcheck // gRPC looks for it
}

// Clone copies them.
func (d directCredentials) Clone() credentials.TransportCredentials {
	return directCredentials{d.TransportCredentials.Clone(), d.s}
}

// serveDirect serves one executor, by the same rules as gRPC's streams.
func (s *Server) serveDirect(end *directDriverEnd, info credentials.AuthInfo) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(s.stopping, func() {
		cancel()
		_ = end.conn.SetDeadline(time.Now().Add(StopGrace)) // for whoever is in the middle of a message
	})()
	_ = end.conn.SetDeadline(time.Time{}) // that of the handshake
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: end.conn.RemoteAddr(), LocalAddr: end.conn.LocalAddr(), AuthInfo: info})
	end.finish(s.directSession(ctx, end))
}

func (s *Server) directSession(ctx context.Context, end *directDriverEnd) (err error) {
	const name = pb.Executors_Session_FullMethodName
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(name, p, false)
		}
	}()
	if ctx, err = s.authorize(ctx, name, nil); err != nil {
		return err
	}
	err = s.executors.ExecutorSession(ctx, end)
	s.judged(ctx, name, s.methods[name], nil, err)
	return s.explain(err, s.methods[name])
}

// sessions are goroutines that a server waits for. Safe for concurrent use.
type sessions struct {
	mu     sync.Mutex
	closed bool
	joined sync.WaitGroup
}

// start runs fn beside its caller; false if there is nothing to be started any
// more.
func (s *sessions) start(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.joined.Go(fn)
	}
	return !s.closed
}

// close starts no more and waits for all.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.joined.Wait()
}
