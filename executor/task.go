package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
)

// runTask runs one task to its end and records its result.
func (x *executor) runTask(t *heldTask) {
	res := model.TaskResult{Executor: x.cfg.Executor, ExitCode: -1}
	dir, remove, err := taskDir(x.cfg.WorkDir, &t.spec)
	if err != nil {
		res.Outcome, res.Error = model.TaskNotRun, err.Error()
		x.tasks.finish(t, res, [2]*capture{})
		return
	}
	output := x.execute(t, dir, &res)
	if err := remove(); err != nil {
		x.logger.Warn("a task's directory stays", "task", t.spec.ID, "err", err)
	}
	x.tasks.finish(t, res, output)
}

// execute runs the task in its directory and fills in the result.
func (x *executor) execute(t *heldTask, dir string, res *model.TaskResult) (output [2]*capture) {
	fail := func(err error) [2]*capture {
		res.Outcome, res.Error = model.TaskNotRun, err.Error()
		return [2]*capture{}
	}
	if len(t.spec.Argv) == 0 {
		return fail(fmt.Errorf("%w: the task has no program", model.ErrInvalid))
	}
	if err := writeFiles(dir, t.spec.Files); err != nil {
		return fail(err)
	}
	marks := x.cfg.taskMarks(&t.spec)
	env := taskEnv(x.base, &t.spec, dir, marks)
	program, err := lookPath(t.spec.Argv[0], env, dir)
	if err != nil {
		return fail(err)
	}
	select {
	case <-t.stop: // cancelled before it began
		res.Outcome = t.outcome
		return output
	default:
	}
	spill := filepath.Join(x.cfg.WorkDir, outputDir, attemptName(&t.spec))
	stdout, err := newPipe(spill + ".stdout")
	if err != nil {
		return fail(err)
	}
	stderr, err := newPipe(spill + ".stderr")
	if err != nil {
		stdout.abort()
		return fail(err)
	}
	cmd := &exec.Cmd{
		Path: program, Args: t.spec.Argv, Env: env, Dir: dir,
		Stdout: stdout.w, Stderr: stderr.w,
	}
	began := time.Now()
	p, err := x.procs.start(cmd, marks)
	if err != nil {
		stdout.abort()
		stderr.abort()
		return fail(err)
	}
	stdout.pump(&x.buffers)
	stderr.pump(&x.buffers)
	res.Outcome = x.await(t, p)
	res.RuntimeMicro = time.Since(began).Microseconds()
	exitStatus(x.procs.bury(p), res)
	output = [2]*capture{stdout.finish(), stderr.finish()}
	fillOutput(output, res)
	return output
}

// await blocks until the leader has ended and says why.
func (x *executor) await(t *heldTask, p *process) model.TaskOutcome {
	ctx := context.Background()
	if t.spec.TimeoutMilli > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(t.spec.TimeoutMilli)*time.Millisecond)
		defer cancel()
	}
	outcome := model.TaskDone
	select {
	case <-p.exited:
		return outcome
	case <-t.stop:
		outcome = t.outcome
	case <-ctx.Done():
		outcome = model.TaskTimedOut
	}
	p.signal(syscall.SIGTERM)
	grace := time.NewTimer(x.cfg.timing.killGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return outcome
	case <-grace.C:
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
	return outcome
}

func exitStatus(st *os.ProcessState, res *model.TaskResult) {
	ws, ok := st.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		res.Error = "the exit status is unknown"
	case ws.Signaled():
		res.Signal = int(ws.Signal())
	default:
		res.ExitCode = ws.ExitStatus()
	}
}

func fillOutput(output [2]*capture, res *model.TaskResult) {
	out, errs := output[0], output[1]
	res.Stdout, res.StdoutBytes = out.head, out.total
	res.Stderr, res.StderrBytes = errs.head, errs.total
	if err := errors.Join(out.err, errs.err); err != nil {
		res.Error = err.Error()
	}
}

// pipe carries one output stream of a task into a capture.
type pipe struct {
	r, w *os.File
	into *capture
	done chan struct{}
}

func newPipe(spill string) (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err //nolint:wrapcheck // says "pipe" itself
	}
	return &pipe{r: r, w: w, into: &capture{path: spill}, done: make(chan struct{})}, nil
}

// abort frees a pipe whose process was not started.
func (p *pipe) abort() {
	_ = p.r.Close()
	_ = p.w.Close()
}

// pump starts to read. The writing end now belongs to the child alone.
func (p *pipe) pump(buffers *sync.Pool) {
	_ = p.w.Close()
	go func() {
		defer close(p.done)
		buf, ok := buffers.Get().(*[]byte)
		if !ok {
			b := make([]byte, copyBytes)
			buf = &b
		}
		defer buffers.Put(buf)
		// Ends at the last writer's end, or at the deadline. Without the wrapping the
		// file would bring a buffer of its own.
		_, _ = io.CopyBuffer(p.into, struct{ io.Reader }{p.r}, *buf)
	}()
}

// finish returns the capture once the last writer is gone, or after
// outputGrace if one got away.
func (p *pipe) finish() *capture {
	_ = p.r.SetReadDeadline(time.Now().Add(outputGrace))
	<-p.done
	_ = p.r.Close()
	return p.into
}
