package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
)

// DefaultMemoryMiB is the memory of an executor unless the program asks for
// another amount.
const DefaultMemoryMiB = 512

// Program is what a setup function describes: the functions that executors
// run, the driver's part, and what to ask the cluster for. The fields are read
// when the driver starts, after its flags have been parsed.
type Program struct {
	// Name of the application; "" = that of the executable.
	Name string
	// Executors is how many to ask for; 0 = as many as the cluster grants.
	Executors int
	// ExecutorCores and MemoryMiB are the size of an executor; 0 = one on each
	// worker with all cores it can have, and DefaultMemoryMiB.
	ExecutorCores int
	MemoryMiB     int64
	// Resources are what an executor needs besides, such as {"gpu": 1}; see
	// ExecutorEnv.Resources.
	Resources map[string]int
	// Placing is with whom the application waits and where its executors may go.
	Placing model.Placing
	// MaxCores bounds the cores over all executors; 0 = the cluster's default.
	MaxCores int
	// CoresPerTask is how many of an executor's cores one call takes; 0 = 1.
	CoresPerTask int
	// Dynamic changes the number of executors with the load; nil = it stays.
	Dynamic *Dynamic
	// Codec encodes arguments and values; nil = JSON.
	Codec Codec
	// Env is the environment of executors, "NAME=value", added to that of
	// their worker.
	Env []string
	// Disconnect is what happens to executors whose worker is cut off; "" = they
	// run on.
	Disconnect model.DisconnectPolicy

	functions map[string]registered
	states    int // executor-local states registered so far
	configure func() error
	run       func(context.Context, *App) error
	flags     *pflag.FlagSet
	errs      []error
}

// registered is one function without its types.
type registered func(env *ExecutorEnv) executor.Function

// newProgram lets setup describe a program and reports everything that is wrong
// with the description; errors wrap model.ErrInvalid. Main does it for you.
func newProgram(setup func(*Program)) (*Program, *standardFlags, error) {
	p := &Program{functions: make(map[string]registered), flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	setup(p)
	std := bindStandard()
	std.addTo(p.flags)
	if p.Codec == nil {
		p.Codec = JSON()
	}
	if p.run == nil {
		p.errs = append(p.errs, fmt.Errorf("%w: the program has no driver part: setup must call Program.Run", model.ErrInvalid))
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, nil, err
	}
	return p, std, nil
}

// Run sets the driver's part. It gets the registered application and the
// arguments of the command line that are not flags (App.Args). When it returns,
// the application ends: as FINISHED if it returns nil, else as FAILED with the
// error's text. ctx ends when the user interrupts the program or the application
// is ended by somebody else; its cause says which.
func (p *Program) Run(driver func(ctx context.Context, app *App) error) { p.run = driver }

// Configure sets a function that is called in the driver after the flags have been
// parsed and before the application is registered: it may check them and change p's
// fields. Its error is a mistake on the command line.
func (p *Program) Configure(check func() error) { p.configure = check }

// Flags are the flags of the program's command line, for setup to add to. Those
// of every program (--masters, --name, --executors, --memory and so on) come
// behind them; one of the same name as the program's is left out. They are parsed
// in the driver only: in an executor they keep their defaults, so a function must
// get what it needs as an argument or a broadcast.
func (p *Program) Flags() *pflag.FlagSet { return p.flags }

// executorFunctions makes the functions of one executor.
func (p *Program) executorFunctions(env *ExecutorEnv) map[string]executor.Function {
	out := make(map[string]executor.Function, len(p.functions))
	for name, bind := range p.functions {
		out[name] = bind(env)
	}
	return out
}

func (p *Program) codec() Codec {
	if p.Codec == nil {
		p.Codec = JSON()
	}
	return p.Codec
}

// Func is a registered function that takes an A and returns an R. It is a handle:
// Call, Map and Stream run it on executors.
type Func[A, R any] struct {
	name string
	arg  encoder[A]
	ret  decoder[R]
}

// Name is the name under which the function was registered.
func (f Func[A, R]) Name() string { return f.name }

// Register makes a function known under a name that is unique in the program. It
// must be called in setup, which runs in the driver and in every executor alike, so
// that the same name means the same function everywhere. A problem (a name that
// is taken, a type that the codec refuses) is reported by Main. Set Program.Codec
// before.
//
// fn runs in an executor's process, on as many goroutines at once as the executor
// has slots. Its ctx ends when the call is cancelled, when its time-out is over
// and when the executor ends; it must return then. Because the calls of a lost
// executor run again elsewhere it may run more than once for one call, and what
// it does besides returning a value must bear that. A panic fails the call, not
// the executor.
func Register[A, R any](p *Program, name string, fn func(ctx context.Context, arg A) (R, error)) Func[A, R] {
	bad := func(err error) Func[A, R] {
		p.errs = append(p.errs, fmt.Errorf("register function %q: %w", name, err))
		return Func[A, R]{name: name}
	}
	switch {
	case name == "" || len(name) > model.MaxFunctionName:
		return bad(fmt.Errorf("%w: the name must have 1 to %d bytes", model.ErrInvalid, model.MaxFunctionName))
	case p.functions[name] != nil:
		return bad(fmt.Errorf("%w: the name is taken", model.ErrInvalid))
	case len(p.functions) >= MaxFunctions:
		return bad(fmt.Errorf("%w: more than %d functions", model.ErrTooLarge, MaxFunctions))
	case fn == nil:
		return bad(fmt.Errorf("%w: there is no function", model.ErrInvalid))
	}
	arg, decodeArg, err := codecFor[A](p.codec())
	if err != nil {
		return bad(fmt.Errorf("its argument cannot travel: %w", err))
	}
	encodeValue, value, err := codecFor[R](p.codec())
	if err != nil {
		return bad(fmt.Errorf("its value cannot travel: %w", err))
	}
	p.functions[name] = func(env *ExecutorEnv) executor.Function {
		return func(ctx context.Context, data []byte) ([]byte, error) {
			a, err := decodeArg(data)
			if err != nil {
				return nil, fmt.Errorf("decode the argument: %w", err)
			}
			r, err := fn(env.with(ctx), a)
			if err != nil {
				return nil, err
			}
			out, err := encodeValue(r)
			if err != nil {
				return nil, fmt.Errorf("encode the value: %w", err)
			}
			return out, nil
		}
	}
	return Func[A, R]{name: name, arg: arg, ret: value}
}

// Retry says what happens to a call whose function fails: it returned an error,
// panicked or took too long. That a call is lost with its executor is no failure
// of the function: it runs again elsewhere, up to MaxReruns times for each try,
// whatever Retry says.
type Retry struct {
	// Tries is how often the function is run at most; 0 and 1 = once.
	Tries int
	// Backoff is the pause before the second try; it doubles up to MaxBackoff.
	// 0 = DefaultBackoff and DefaultMaxBackoff.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// If decides whether another try makes sense; nil = always. It is called in
	// the driver.
	If func(*CallError) bool
}

// pause is the wait after so many tries.
func (r *Retry) pause(tries int) time.Duration {
	first, most := r.Backoff, r.MaxBackoff
	if first <= 0 {
		first = DefaultBackoff
	}
	if most <= 0 {
		most = max(first, DefaultMaxBackoff)
	}
	for ; tries > 1 && first < most; tries-- {
		first *= 2
	}
	return min(first, most)
}
