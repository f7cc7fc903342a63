//go:build linux

package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/unixsocket"
)

// Client is the agent's side of the socket. Its calls may be made concurrently; each blocks until
// the keeper has answered, ctx ends, or the connection does. A call that ends without an answer may
// have been carried out.
//
// While a Client is attached its connection is the claim on all children: losing it without a Keep
// ends them.
type Client struct {
	conn net.Conn
	info Info

	events  chan Event
	calls   chan call
	done    chan struct{} // closed when the connection is gone
	closing chan struct{} // closed by Close
	once    sync.Once
	loops   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	nextID  uint64
	waiting map[uint64]chan *reply
	queue   []Event // not yet taken from events; bounded by the keeper's entries
	queued  chan struct{}
	err     error // why the connection ended
}

type call struct {
	id    uint64
	frame []byte
}

// Attach connects to a running keeper of that worker. It takes the place of any other agent, and
// any Keep in force is over. The caller learns what has happened meanwhile from List.
func Attach(ctx context.Context, socket, workerID string) (*Client, error) {
	conn, err := unixsocket.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	c, err := attachConn(ctx, conn, workerID)
	if err != nil {
		return nil, fmt.Errorf("attach to keeper at %s: %w", socket, err)
	}
	return c, nil
}

// attachConn says hello on conn, which it owns from then on.
func attachConn(ctx context.Context, conn net.Conn, workerID string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	c := &Client{
		conn:    conn,
		events:  make(chan Event),
		calls:   make(chan call, maxQueuedCalls),
		done:    make(chan struct{}),
		closing: make(chan struct{}),
		waiting: make(map[uint64]chan *reply),
		queued:  make(chan struct{}, 1),
	}
	c.loops.Go(c.readLoop)
	c.loops.Go(c.writeLoop)
	c.loops.Go(c.eventLoop)
	rep, err := c.call(ctx, &request{Hello: &helloRequest{Versions: []int{ProtocolVersion}, WorkerID: workerID}})
	if err == nil && rep.Hello == nil {
		err = errors.New("keeper answered the hello with something else")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.info = *rep.Hello
	return c, nil
}

// Info says which keeper this is.
func (c *Client) Info() Info { return c.info }

// Events delivers what happens to the children, in order. The channel is closed when the
// connection has ended and everything before that was taken, or after Close.
func (c *Client) Events() <-chan Event { return c.events }

// Done is closed when the connection has ended. Err then says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection: without a Keep in force all children are killed and the keeper exits.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closing) })
	err := c.conn.Close()
	c.loops.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Start starts a process. A refusal is an *Error with a Reason.
func (c *Client) Start(ctx context.Context, req StartRequest) (Started, error) {
	if err := checkStart(&req, c.info.WorkerID); err != nil {
		return Started{}, err
	}
	rep, err := c.call(ctx, &request{Start: &req})
	if err != nil {
		return Started{}, err
	}
	if rep.Start == nil {
		return Started{}, fmt.Errorf("start %s: keeper answered with something else", req.Key)
	}
	return *rep.Start, nil
}

// Kill sends SIGTERM to all processes of key, and SIGKILL after grace (at most MaxGrace) to those
// left. It returns when that is under way; an Exited event tells when all are gone, a Stuck event
// that SIGKILL did not help. A repeated Kill can only shorten the grace.
func (c *Client) Kill(ctx context.Context, key string, grace time.Duration) error {
	_, err := c.call(ctx, &request{Kill: &killRequest{Key: key, GraceMS: grace.Milliseconds()}})
	return err
}

// Signal sends one signal to the main process of key.
func (c *Client) Signal(ctx context.Context, key string, sig unix.Signal) error {
	_, err := c.call(ctx, &request{Signal: &signalRequest{Key: key, Signal: int(sig)}})
	return err
}

// List returns all entries, running and exited, sorted by key.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	var all []Entry
	for after := ""; ; {
		rep, err := c.call(ctx, &request{List: &listRequest{After: after}})
		if err != nil {
			return nil, err
		}
		if rep.List == nil {
			return nil, errors.New("list: keeper answered with something else")
		}
		all = append(all, rep.List.Entries...)
		if !rep.List.More || len(rep.List.Entries) == 0 {
			return all, nil
		}
		after = rep.List.Entries[len(rep.List.Entries)-1].Key
	}
}

// Forget drops an exit that the agent has stored or reported for good. Until then every List has
// it, also that of a later keeper.
func (c *Client) Forget(ctx context.Context, key string) error {
	_, err := c.call(ctx, &request{Forget: &forgetRequest{Key: key}})
	return err
}

// Keep lets children run on for d (at most MaxKeep), counted from now, if this connection ends
// before another agent attaches; 0 takes it back.
func (c *Client) Keep(ctx context.Context, d time.Duration) error {
	_, err := c.call(ctx, &request{Keep: &keepRequest{ForMS: d.Milliseconds()}})
	return err
}

// Lease renews the lease of everything that was started Leased. The latest call counts, also if it
// makes the lease shorter: make one at a time.
func (c *Client) Lease(ctx context.Context, l Lease) error {
	_, err := c.call(ctx, &request{Lease: &l})
	return err
}

// Shutdown ends all children, with SIGKILL after grace, and the keeper. It returns when the keeper
// has closed the connection, which it does when they are gone and all Exited events are sent. Events
// must be received meanwhile or later; they are not lost before Close.
func (c *Client) Shutdown(ctx context.Context, grace time.Duration) error {
	_, err := c.call(ctx, &request{Shutdown: &shutdownRequest{GraceMS: grace.Milliseconds()}})
	if err != nil && !errors.Is(err, ErrDisconnected) {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down keeper: %w", ctx.Err())
	}
}

func (c *Client) call(ctx context.Context, req *request) (*reply, error) {
	answer := make(chan *reply, 1)
	c.mu.Lock()
	c.nextID++
	req.ID = c.nextID
	c.waiting[req.ID] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, req.ID)
		c.mu.Unlock()
	}()
	frame, err := encodeFrame(req)
	if err != nil {
		return nil, err
	}
	select {
	case c.calls <- call{req.ID, frame}:
	case <-ctx.Done():
		return nil, fmt.Errorf("ask keeper: %w", ctx.Err())
	case <-c.done:
		return nil, c.disconnected()
	}
	select {
	case rep := <-answer:
		return unwrap(rep)
	case <-ctx.Done():
		return nil, fmt.Errorf("ask keeper: %w", ctx.Err())
	case <-c.done:
	}
	select { // an answer that came just before the end counts
	case rep := <-answer:
		return unwrap(rep)
	default:
		return nil, c.disconnected()
	}
}

func unwrap(rep *reply) (*reply, error) {
	if rep.Error != nil {
		return nil, rep.Error
	}
	return rep, nil
}

func (c *Client) disconnected() error {
	return fmt.Errorf("%w: %w", ErrDisconnected, c.Err())
}

func (c *Client) readLoop() {
	var err error
	in := bufio.NewReaderSize(c.conn, readBufferBytes)
	for err == nil {
		var rep *reply
		if rep, err = readReply(in); err == nil {
			c.deliver(rep)
		}
	}
	_ = c.conn.Close()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.done)
}

func (c *Client) deliver(rep *reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rep.ID == 0 {
		if rep.Event != nil {
			c.queue = append(c.queue, *rep.Event)
			select {
			case c.queued <- struct{}{}:
			default:
			}
		}
		return
	}
	if answer := c.waiting[rep.ID]; answer != nil {
		delete(c.waiting, rep.ID)
		answer <- rep
	}
}

func (c *Client) writeLoop() {
	for {
		select {
		case call := <-c.calls:
			frames := net.Buffers{call.frame}
			for more := true; more && len(frames) < maxQueuedCalls; { // what waits goes with it
				select {
				case call = <-c.calls:
					frames = append(frames, call.frame)
				default:
					more = false
				}
			}
			if _, err := frames.WriteTo(c.conn); err != nil {
				_ = c.conn.Close() // the reading loop reports it
				return
			}
		case <-c.done:
			return
		}
	}
}

// eventLoop stands between the reading loop and a receiver that may be slow, so that answers never
// wait for events.
func (c *Client) eventLoop() {
	defer close(c.events)
	for ended := false; ; {
		c.mu.Lock()
		batch := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, ev := range batch {
			select {
			case c.events <- ev:
			case <-c.closing:
				return
			}
		}
		if ended && len(batch) == 0 {
			return
		}
		select {
		case <-c.queued:
		case <-c.done:
			ended = true
		case <-c.closing:
			return
		}
	}
}
