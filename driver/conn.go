package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Why a stream is ended by the driver.
var (
	errReplaced = fmt.Errorf("%w: the executor has opened another stream", model.ErrConflict)
	errEnded    = fmt.Errorf("%w: the executor is not wanted any more", model.ErrEnded)
	errClosing  = fmt.Errorf("%w: the driver is ending", model.ErrUnavailable)
)

// conn is one stream of an executor.
type conn struct {
	out    outbox
	cancel context.CancelCauseFunc
	free   func([]model.TaskResult) // takes a list of results back
	chunks chan model.OutputChunk
	fetch  fetchList
}

// outbox holds what is to be sent on a stream, merged; the loop fills it
// without ever waiting for the network. It is bounded by what the executor
// holds. Safe for concurrent use.
type outbox struct {
	mu sync.Mutex
	// together: the executor takes acknowledgements and tasks in one message.
	together bool
	batch    int // bounds the tasks in one message
	welcome  *model.ExecutorWelcome
	beat     *model.Beat
	// frames are calls and acknowledgements, encoded; spare is the memory of those
	// that were drained last.
	frames, spare *rpc.Frames
	tasks         []model.ExecTask // processes, and calls that are sent again
	cancels       []model.TaskID
	recall        []model.TaskID
	fetch         *model.OutputFetch
	stop          bool
	wake          chan struct{}
}

func (o *outbox) put(fill func(*outbox)) {
	o.mu.Lock()
	fill(o)
	o.mu.Unlock()
	ring(o.wake)
}

// add encodes acknowledgements and calls. An acknowledgement of an old attempt
// comes before a new attempt of the same task.
func (o *outbox) add(acks []model.TaskID, tasks []*task) {
	f := o.frames
	if len(acks) > 0 && (!o.together || len(tasks) == 0) {
		f.Begin()
		f.Acks(acks)
		f.End()
		acks = nil
	}
	for len(tasks) > 0 {
		f.Begin()
		f.Acks(acks)
		n := 0
		for acks = nil; n < len(tasks) && n < o.batch && f.MessageLen() < maxFrameBytes; n++ {
			f.Call(&tasks[n].spec)
		}
		f.End()
		tasks = tasks[n:]
	}
}

// drained is what was in an outbox: before goes first, after last.
type drained struct {
	before, after []model.ExecutorDown
	frames        *rpc.Frames // valid until the next drain
}

// drain takes everything, in the order in which it must arrive: an
// acknowledgement of an old attempt before a new attempt of the same task, a
// task before its cancellation.
func (o *outbox) drain() (d drained) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.welcome != nil {
		d.before = append(d.before, model.ExecutorDown{Welcome: o.welcome})
	}
	if o.beat != nil {
		d.before = append(d.before, model.ExecutorDown{BeatAck: o.beat})
	}
	for tasks := o.tasks; len(tasks) > 0; {
		n := min(o.batch, len(tasks))
		d.after = append(d.after, model.ExecutorDown{Tasks: tasks[:n:n]})
		tasks = tasks[n:]
	}
	if len(o.cancels) > 0 {
		d.after = append(d.after, model.ExecutorDown{Cancel: o.cancels})
	}
	if len(o.recall) > 0 {
		d.after = append(d.after, model.ExecutorDown{Recall: o.recall})
	}
	if o.fetch != nil {
		d.after = append(d.after, model.ExecutorDown{Fetch: o.fetch})
	}
	if o.stop {
		d.after = append(d.after, model.ExecutorDown{Stop: true})
	}
	o.welcome, o.beat, o.tasks, o.cancels, o.recall, o.fetch, o.stop = nil, nil, nil, nil, nil, nil, false
	d.frames = o.frames
	o.spare.Reset()
	o.frames, o.spare = o.spare, o.frames
	return d
}

// Messages from streams to the loop.
type (
	// helloMsg asks for admission; the answer comes on reply.
	helloMsg struct {
		c     *conn
		hello model.ExecutorHello
		reply chan error // buffered
	}
	// upMsg is what an accepted executor says.
	upMsg struct {
		c  *conn
		up model.ExecutorUp
	}
	// brokenMsg: the stream of an executor has ended, accepted or not.
	brokenMsg struct{ c *conn }
	// fetchedMsg: the spilled output of a result is complete, or never will be.
	fetchedMsg struct {
		c     *conn
		res   model.TaskResult
		files [2]io.WriteCloser // stdout, stderr; nil = not spilled
		err   error
	}
)

// hub serves the executors of one driver.
type hub struct{ d *Driver }

// ExecutorSession serves one stream of an executor. The calling goroutine is
// its only sender.
func (h hub) ExecutorSession(parent context.Context, stream rpc.ExecutorSessionStream) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	c := &conn{
		cancel: cancel, chunks: make(chan model.OutputChunk, maxChunks),
		out:   outbox{wake: make(chan struct{}, 1), batch: h.d.cfg.MaxBatch, frames: new(rpc.Frames), spare: new(rpc.Frames)},
		free:  stream.Free,
		fetch: fetchList{wake: make(chan struct{}, 1)},
	}
	hello := make(chan model.ExecutorHello, 1)
	received := make(chan error, 1)
	go func() { received <- h.d.receive(ctx, c, stream, hello) }()
	if err := h.d.admit(ctx, c, stream, hello, received); err != nil {
		return err
	}
	var joined sync.WaitGroup
	joined.Go(func() { h.d.fetchLoop(ctx, c) })
	err := send(ctx, c, stream, received)
	cancel(err)
	joined.Wait()
	// Not under ctx, which has ended: the loop must learn of it.
	h.d.mail.put(context.WithoutCancel(ctx), brokenMsg{c})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// receive reads a stream until it ends; the first message is a Hello.
func (d *Driver) receive(ctx context.Context, c *conn, stream rpc.ExecutorSessionStream, hello chan<- model.ExecutorHello) error {
	first, err := stream.Recv()
	switch {
	case err != nil:
		return err
	case first.Hello == nil:
		return fmt.Errorf("%w: the first message of an executor must be a hello", model.ErrInvalid)
	}
	hello <- *first.Hello
	for {
		up, err := stream.Recv()
		switch {
		case err != nil:
			return err
		case up.Hello != nil:
			return fmt.Errorf("%w: a second hello on one stream", model.ErrInvalid)
		case up.Chunk != nil:
			select {
			case c.chunks <- *up.Chunk:
			default: // the fetcher asks for one at a time
				return fmt.Errorf("%w: output that nobody asked for", model.ErrInvalid)
			}
			// The word counts as a sign of life.
			up = model.ExecutorUp{}
		}
		if !d.mail.put(ctx, upMsg{c, up}) {
			return errClosing
		}
	}
}

// admit waits for Hello and for the loop's verdict on it. An executor that has
// to wait for its announcement gets a beat now and then.
func (d *Driver) admit(
	ctx context.Context, c *conn, stream rpc.ExecutorSessionStream, hello <-chan model.ExecutorHello, received <-chan error,
) error {
	t := time.NewTimer(helloTimeout)
	defer t.Stop()
	reply := make(chan error, 1)
	select {
	case h := <-hello:
		if !d.mail.put(ctx, helloMsg{c: c, hello: h, reply: reply}) {
			return errClosing
		}
	case err := <-received:
		return err
	case <-t.C:
		return fmt.Errorf("%w: no hello within %s", model.ErrInvalid, helloTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// The loop must learn of an end in here: the executor is parked, or the
	// verdict was yes and is void now.
	broken := func(err error) error {
		d.mail.put(context.WithoutCancel(ctx), brokenMsg{c})
		return err
	}
	for {
		select {
		case err := <-reply:
			return err
		case <-c.out.wake:
			if err := c.flush(stream); err != nil {
				return broken(err)
			}
		case err := <-received:
			return broken(err)
		case <-ctx.Done():
			return broken(context.Cause(ctx))
		case <-d.done:
			return errClosing
		}
	}
}

// send empties the outbox until the stream ends, and returns why it did.
func send(ctx context.Context, c *conn, stream rpc.ExecutorSessionStream, received <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-received:
			return err
		case <-c.out.wake:
			if err := c.flush(stream); err != nil {
				return err
			}
		}
	}
}

// flush sends what is in the outbox.
func (c *conn) flush(stream rpc.ExecutorSessionStream) error {
	d := c.out.drain()
	for i := range d.before {
		if err := stream.Send(d.before[i]); err != nil {
			return err
		}
	}
	if d.frames.Len() > 0 {
		if err := stream.SendFrames(d.frames); err != nil {
			return err
		}
	}
	for i := range d.after {
		if err := stream.Send(d.after[i]); err != nil {
			return err
		}
	}
	return nil
}
