package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
)

// Option changes how calls are made.
type Option func(*callOptions)

type callOptions struct {
	timeout  time.Duration
	retry    *Retry
	locality func(index int) Locality
	ahead    int
	profile  *Profile
}

// WithTimeout ends each try of a call that takes longer.
func WithTimeout(d time.Duration) Option { return func(o *callOptions) { o.timeout = d } }

// WithRetry runs functions that fail again.
func WithRetry(r Retry) Option { return func(o *callOptions) { o.retry = &r } }

// WithLocality says where calls had better run.
func WithLocality(l Locality) Option {
	return func(o *callOptions) { o.locality = func(int) Locality { return l } }
}

// WithLocalityOf is WithLocality for each argument, by its index.
func WithLocalityOf(of func(index int) Locality) Option {
	return func(o *callOptions) { o.locality = of }
}

// WithAhead bounds how many arguments Stream and Map have on the way at once;
// DefaultAhead unless it is set.
func WithAhead(n int) Option { return func(o *callOptions) { o.ahead = n } }

func makeOptions(opts []Option) callOptions {
	o := callOptions{ahead: DefaultAhead}
	for _, set := range opts {
		set(&o)
	}
	o.ahead = max(1, min(o.ahead, MaxAhead))
	return o
}

// task makes the task of one call.
func (o *callOptions) task(function string, arg []byte, index int) Task {
	t := Task{Function: function, Argument: arg, Timeout: o.timeout, Profile: o.profile.Number()}
	if o.locality != nil {
		if l := o.locality(index); !l.empty() {
			t.Near = &l
		}
	}
	return t
}

// Reply is what came of one call.
type Reply[R any] struct {
	Value R
	// Err is nil, a *CallError, why the argument could not be encoded or the
	// value not decoded, or the end of the application.
	Err      error
	Executor model.ExecutorID // -1 = none
	Host     string
	Tries    int
	Reruns   int           // how often the last try was lost with its executor
	Runtime  time.Duration // of the last try
}

// rawReply is a reply whose value is not decoded yet: that is work for whoever
// wants it, not for the goroutine through which all results pass.
type rawReply struct {
	index  int
	result *Result // nil = none came
	tries  int
	err    error
}

func replyOf[A, R any](fn Func[A, R], raw rawReply) Reply[R] {
	out := Reply[R]{Err: raw.err, Executor: -1, Tries: raw.tries}
	r := raw.result
	if r == nil {
		return out
	}
	out.Executor, out.Host, out.Reruns = r.Executor, r.Host, r.Reruns
	out.Runtime = time.Duration(r.RuntimeMicro) * time.Microsecond
	if raw.err == nil {
		var err error
		if out.Value, err = fn.ret(r.Value); err != nil {
			out.Err = fmt.Errorf("decode the value of function %q: %w", fn.name, err)
		}
	}
	return out
}

// Call runs a function on an executor and returns its value. It blocks until then;
// while no executor has a free slot the call waits. The error is a *CallError if
// the function failed. When ctx ends, Call returns its error at once and the
// function is told to return.
func Call[A, R any](ctx context.Context, app *App, fn Func[A, R], arg A, opts ...Option) (R, error) {
	var zero R
	o := makeOptions(opts)
	data, err := fn.encode(arg)
	if err != nil {
		return zero, err
	}
	replied := make(chan rawReply, 1)
	c, err := app.begin(ctx, o.task(fn.name, data, 0), o.retry, func(r *Result, tries int, err error) {
		replied <- rawReply{result: r, tries: tries, err: err}
	})
	if err != nil {
		return zero, err
	}
	select {
	case raw := <-replied:
		r := replyOf(fn, raw)
		return r.Value, r.Err
	case <-ctx.Done():
		app.cancelCalls(c) //nolint:contextcheck // ctx has ended
		return zero, c.cause()
	}
}

// encode encodes an argument.
func (f Func[A, R]) encode(arg A) ([]byte, error) {
	if f.arg == nil {
		return nil, fmt.Errorf("call function %q: %w: it was not registered", f.name, model.ErrInvalid)
	}
	data, err := f.arg(arg)
	if err != nil {
		return nil, fmt.Errorf("call function %q: encode the argument: %w", f.name, err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// Map runs a function on every argument and returns the values in the order of the
// arguments. The first failure (of a call's last try) cancels the rest and is
// returned, with the values that were there.
func Map[A, R any](ctx context.Context, app *App, fn Func[A, R], args []A, opts ...Option) ([]R, error) {
	out := make([]R, len(args))
	seq := func(yield func(A) bool) {
		for _, a := range args {
			if !yield(a) {
				return
			}
		}
	}
	for i, r := range Stream(ctx, app, fn, seq, opts...) {
		if r.Err != nil {
			if i < 0 {
				return out, r.Err
			}
			return out, fmt.Errorf("argument %d: %w", i, r.Err)
		}
		out[i] = r.Value
	}
	return out, nil
}

// Stream runs a function on every argument and yields the replies as they come,
// each with the index of its argument. A call that fails is a reply with an Err;
// the others go on. When the loop ends early, what is on the way is cancelled.
// When ctx ends, calls on the way are cancelled and the last reply has index -1
// and the reason as its Err. When the application ends, every call on the way has
// a reply with the reason.
//
// args is read by another goroutine, at most WithAhead arguments ahead of the
// replies that were taken; it may be endless. After an early end of the loop it is
// asked for one more argument at most.
func Stream[A, R any](ctx context.Context, app *App, fn Func[A, R], args iter.Seq[A], opts ...Option) iter.Seq2[int, Reply[R]] {
	return func(yield func(int, Reply[R]) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := &stream[A, R]{
			app: app, fn: fn, opts: makeOptions(opts), calls: make(map[int]*pendingCall),
			ready: make(chan struct{}, 1), fed: make(chan struct{}),
		}
		s.slots = make(chan struct{}, s.opts.ahead)
		defer s.abandon() //nolint:contextcheck // tasks are cancelled after ctx has ended
		go s.feed(ctx, args)
		fed := s.fed
		for {
			for _, r := range s.take() {
				<-s.slots
				if !yield(r.index, replyOf(fn, r)) {
					return
				}
			}
			if fed == nil && s.drained() {
				return
			}
			select {
			case <-s.ready:
			case <-fed:
				fed = nil
			case <-ctx.Done():
				yield(-1, Reply[R]{Err: fmt.Errorf("call function %q: %w", fn.name, context.Cause(ctx)), Executor: -1})
				return
			}
		}
	}
}

// stream is the state of one Stream. A slot is held by each argument from its
// reading until its reply is yielded.
type stream[A, R any] struct {
	app   *App
	fn    Func[A, R]
	opts  callOptions
	slots chan struct{}
	ready chan struct{} // has one value when there is something to take
	fed   chan struct{} // closed when every argument was read

	mu      sync.Mutex
	calls   map[int]*pendingCall // on the way
	replies []rawReply
	out     int // arguments that were read and whose reply was not taken
	over    bool
}

// feed submits the arguments, one after the other.
func (s *stream[A, R]) feed(ctx context.Context, args iter.Seq[A]) {
	defer close(s.fed)
	index := 0
	for arg := range args {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !s.start(ctx, index, arg) {
			return
		}
		index++
	}
}

// start submits one argument; false if the stream is over.
func (s *stream[A, R]) start(ctx context.Context, index int, arg A) bool {
	s.mu.Lock()
	s.out++
	s.mu.Unlock()
	data, err := s.fn.encode(arg)
	if err != nil {
		s.add(rawReply{index: index, err: err})
		return true
	}
	c, err := s.app.begin(ctx, s.opts.task(s.fn.name, data, index), s.opts.retry, func(r *Result, tries int, err error) {
		s.add(rawReply{index: index, result: r, tries: tries, err: err})
	})
	if err != nil {
		s.add(rawReply{index: index, err: err})
		// What is wrong with one argument says nothing of the next one.
		return errors.Is(err, model.ErrTooLarge) || errors.Is(err, model.ErrInvalid)
	}
	s.mu.Lock()
	over := s.over
	if !over && !c.isOver() {
		s.calls[index] = c
	}
	s.mu.Unlock()
	if over {
		s.app.cancelCalls(c) //nolint:contextcheck // ctx has ended
	}
	return !over
}

// add takes the reply of one argument. It does not block.
func (s *stream[A, R]) add(r rawReply) {
	s.mu.Lock()
	delete(s.calls, r.index)
	s.replies = append(s.replies, r)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *stream[A, R]) take() []rawReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.replies
	s.replies = nil
	s.out -= len(out)
	return out
}

func (s *stream[A, R]) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out == 0
}

// abandon cancels what is on the way.
func (s *stream[A, R]) abandon() {
	s.mu.Lock()
	s.over = true
	calls := make([]*pendingCall, 0, len(s.calls))
	for _, c := range s.calls {
		calls = append(calls, c)
	}
	s.calls = nil
	s.mu.Unlock()
	s.app.cancelCalls(calls...)
}
