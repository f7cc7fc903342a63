package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// ExecutorEnv is what a function can know of the executor in which it runs.
type ExecutorEnv struct {
	App       model.AppID
	ID        model.ExecutorID
	Worker    model.WorkerID
	Host      string
	Cores     int
	MemoryMiB int64
	// WorkDir is the executor's own directory, the current one of its process.
	WorkDir string
	// LocalDirs are for large temporary files: all executors of the application on
	// this worker share them, and they are removed when the application ends.
	LocalDirs []string
	// Resources are the addresses of what the executor was given, by the name in
	// upper case with _ for what is no letter or digit: {"GPU": {"0", "1"}}.
	Resources map[string][]string

	codec    Codec
	contents *contentCache
	locals   []localSlot
	opened   []func() error // closes local states, in the order of their opening
	lock     chan struct{}  // of opened
	log      hclog.Logger
	lifetime context.Context //nolint:containedctx // of the executor: its states outlive the calls that open them
	end      context.CancelFunc
}

// Executor returns the executor in which a function runs; ctx must be the one that
// the function got, or made of it. nil = it is not.
func Executor(ctx context.Context) *ExecutorEnv {
	env, _ := ctx.Value(envKey{}).(*ExecutorEnv)
	return env
}

// Logger writes to the executor's standard error, which `hearth logs` shows.
func (e *ExecutorEnv) Logger() hclog.Logger { return e.log }

type envKey struct{}

// envContext is the context of a call with its executor.
type envContext struct {
	context.Context //nolint:containedctx // this is one
	env             *ExecutorEnv
}

// Value finds the executor.
func (c envContext) Value(key any) any {
	if _, ok := key.(envKey); ok {
		return c.env
	}
	return c.Context.Value(key)
}

func (e *ExecutorEnv) with(ctx context.Context) context.Context { return envContext{ctx, e} }

// newExecutorEnv makes the environment of the functions of one executor.
func newExecutorEnv(p *Program, cfg *executor.Config) *ExecutorEnv {
	e := &ExecutorEnv{
		App: cfg.App, ID: cfg.Executor, Worker: cfg.Worker, Host: cfg.Host, Cores: cfg.Cores, MemoryMiB: cfg.MemoryMiB,
		WorkDir: cfg.WorkDir, codec: p.codec(), locals: make([]localSlot, p.states), lock: make(chan struct{}, 1), log: cfg.Logger,
	}
	for i := range e.locals {
		e.locals[i].turn = make(chan struct{}, 1)
	}
	for _, kv := range cfg.Env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "HEARTH_LOCAL_DIRS" && value != "":
			e.LocalDirs = strings.Split(value, ",")
		case strings.HasPrefix(name, resourcePrefix):
			if e.Resources == nil {
				e.Resources = make(map[string][]string)
			}
			e.Resources[strings.TrimPrefix(name, resourcePrefix)] = strings.Split(value, ",")
		}
	}
	if len(e.LocalDirs) == 0 {
		e.LocalDirs = []string{os.TempDir()}
	}
	e.lifetime, e.end = context.WithCancel(context.Background())
	dial := func() (*rpc.Conn, error) {
		return rpc.Dial(cfg.DriverAddr, rpc.DialConfig{TLS: cfg.TLS, Dial: cfg.Dial})
	}
	e.contents = newContentCache(model.ExecutorRef{App: cfg.App, Executor: cfg.Executor}, cfg.Secret, dial, cfg.Logger)
	return e
}

// resourcePrefix begins the variables in which a worker names resources.
const resourcePrefix = "HEARTH_RESOURCE_"

// close closes what the executor's functions have opened, the last one first.
func (e *ExecutorEnv) close() error {
	e.end()
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	errs := []error{e.contents.close()}
	for _, shut := range slices.Backward(e.opened) {
		errs = append(errs, shut())
	}
	e.opened = nil
	return errors.Join(errs...)
}

// Local is something that each executor has once, such as a connection or a
// model in memory: the first call that asks for it makes it, all others on that
// executor share it.
type Local[T any] struct {
	index int
	open  func(context.Context, *ExecutorEnv) (T, error)
	shut  func(T) error
}

// localSlot is a Local on one executor. turn holds a token for the one who makes
// it.
type localSlot struct {
	turn  chan struct{}
	value atomic.Pointer[any] // nil until it is made
}

// NewLocal registers a state of executors; like Register it must be called in
// setup. open makes it: its ctx ends with the executor. If it fails, that call
// gets the error and the next one tries again. shut, unless nil, is called when
// the executor ends in order; an executor that is lost or killed does not get
// there.
func NewLocal[T any](p *Program, open func(ctx context.Context, env *ExecutorEnv) (T, error), shut func(T) error) *Local[T] {
	l := &Local[T]{index: p.states, open: open, shut: shut}
	p.states++
	if open == nil {
		p.errs = append(p.errs, fmt.Errorf("register local state: %w: there is no function that makes it", model.ErrInvalid))
	}
	return l
}

// Get returns the state of the executor in which a function runs, whose ctx it
// must be. It blocks while another call makes it.
func (l *Local[T]) Get(ctx context.Context) (T, error) {
	var zero T
	env := Executor(ctx)
	if env == nil || l.index >= len(env.locals) {
		return zero, fmt.Errorf("local state: %w: only a function on an executor has one", model.ErrInvalid)
	}
	slot := &env.locals[l.index]
	if v := slot.value.Load(); v != nil {
		out, _ := (*v).(T)
		return out, nil
	}
	select {
	case slot.turn <- struct{}{}:
		defer func() { <-slot.turn }()
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
	if v := slot.value.Load(); v != nil {
		out, _ := (*v).(T)
		return out, nil
	}
	out, err := l.open(env.lifetime, env) //nolint:contextcheck // the state outlives the call that makes it
	if err != nil {
		return zero, fmt.Errorf("make local state: %w", err)
	}
	if err := env.note(func() error {
		if l.shut == nil {
			return nil
		}
		return l.shut(out)
	}); err != nil {
		return zero, err
	}
	v := any(out)
	slot.value.Store(&v)
	return out, nil
}

// note remembers how to close a state; one that comes after the executor's end
// is closed at once.
func (e *ExecutorEnv) note(shut func() error) error {
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	if e.lifetime.Err() != nil {
		return errors.Join(errClosing, shut())
	}
	e.opened = append(e.opened, shut)
	return nil
}
