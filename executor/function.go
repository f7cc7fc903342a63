package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// Function is what a program registers to be called by tasks. It runs in the
// executor's own process, on up to as many goroutines at once as the executor
// has slots (its cores, unless the driver says that a task takes several).
//
// ctx ends when the task is cancelled, when its time-out is over and when the
// executor ends. A function must return then. One that
// does not is reported after KillGrace, but cannot be killed: its slot stays
// taken until it returns, and no task runs in its place. An executor that has
// to end waits for it for StopTimeout.
//
// arg must not be changed, and neither it nor the value may be changed after
// the return. An error makes the task FAILED, with its text; so does a panic,
// with its stack, and a value of more than model.MaxTaskValue bytes. The task
// of a lost executor runs again elsewhere: a function may run more than once.
type Function func(ctx context.Context, arg []byte) ([]byte, error)

// runCall calls the function of a task and says what came of it, as far as
// that is of the function's own making.
func (x *executor) runCall(t *heldTask, res *model.TaskResult) {
	spec := &t.spec
	*res = model.TaskResult{Executor: x.cfg.Executor, ExitCode: -1}
	fn := x.cfg.Functions[spec.Function]
	if fn == nil {
		res.Outcome, res.Error = model.TaskNotRun, x.unknownFunction(spec.Function)
		return
	}
	value, err := invoke(t.ctx, fn, spec.Argument)
	if err != nil {
		failed(res, err)
		return
	}
	if len(value) > model.MaxTaskValue {
		res.Outcome = model.TaskFailed
		res.Error = fmt.Sprintf("function %q returned %d bytes, the limit is %d: let it write the value to a file and return the path, or return less at a time",
			spec.Function, len(value), model.MaxTaskValue)
		return
	}
	res.Outcome, res.Value, res.ExitCode = model.TaskDone, value, 0
}

// failed notes the error of a function.
func failed(res *model.TaskResult, err error) {
	res.Outcome = model.TaskFailed
	var p *panicError
	if !errors.As(err, &p) {
		res.Error = errorText(err)
		return
	}
	res.Error, res.Stderr, res.StderrBytes = p.Error(), p.stack, int64(len(p.stack))
}

// unknownFunction says which name is not known and which ones are.
func (x *executor) unknownFunction(name string) string {
	if len(x.cfg.Functions) == 0 {
		return fmt.Sprintf("function %q: %v: this executor has no functions, it runs processes only", name, model.ErrNotFound)
	}
	known := make([]string, 0, len(x.cfg.Functions))
	for k := range x.cfg.Functions {
		known = append(known, k)
	}
	slices.Sort(known)
	return fmt.Sprintf("function %q: %v: the executor's program knows %s; driver and executors must run the same program",
		name, model.ErrNotFound, strings.Join(known, ", "))
}

// panicError is what a function that panicked returns.
type panicError struct {
	value string
	stack []byte
}

// Error names what was panicked with.
func (p *panicError) Error() string { return "panic: " + p.value }

// invoke calls a function and survives its panic.
func invoke(ctx context.Context, fn Function, arg []byte) (value []byte, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		stack := debug.Stack()
		stack = stack[:min(len(stack), maxPanicStack)]
		if v := recover(); v != nil {
			err = &panicError{value: safeText(func() string { return fmt.Sprint(v) }), stack: stack}
			return
		}
		// runtime.Goexit: the goroutine ends after this, whatever we return.
		err = &panicError{value: "the function ended its goroutine (runtime.Goexit)", stack: stack}
	}()
	value, err = fn(ctx, arg)
	returned = true
	return value, err
}

// errorText is the text of a function's error, which is code of the user's too.
func errorText(err error) string { return safeText(err.Error) }

func safeText(text func() string) (s string) {
	defer func() {
		if p := recover(); p != nil {
			s = "an error whose text cannot be had: its method panicked"
		}
	}()
	if s = text(); s == "" {
		return "an error without a text"
	}
	return s
}
