package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// shell runs the commands.
const shell = "/bin/sh"

// job is one input on its way.
type job struct {
	seq    int
	inputs []string
	tries  int // attempts of ours that have ended
	task   driver.Task
	own    int // bytes of its own files
}

// engine is the state of a run between the inputs and the driver. It belongs
// to the goroutine of drive.
type engine struct {
	p       *plan
	drv     *driver.Driver
	print   *printer
	bar     *progress
	ended   func(TaskEnd)
	waiting func() // tells the user that nothing runs yet, if so
	total   int    // of all tasks; -1 = not known before the end
	sum     Summary

	next    *job   // to be submitted
	again   []*job // to be retried
	out     int    // submitted, without a result
	own     int    // bytes of files of tasks without a final result
	read    bool   // all inputs are read
	halted  bool   // the policy says so
	closing bool   // nothing is started any more
	code    int    // of the task that failed first
}

// submission is the answer of the goroutine that submits.
type submission struct {
	job *job
	err error
}

// submitter hands jobs to the driver: Submit blocks while its queue is full.
type submitter struct {
	jobs   chan *job
	failed chan submission // one for each job that the driver has not taken
	cancel context.CancelFunc
	done   chan struct{}
	closed bool
}

func newSubmitter(ctx context.Context, d *driver.Driver) *submitter {
	ctx, cancel := context.WithCancel(ctx)
	s := &submitter{jobs: make(chan *job), failed: make(chan submission, 1), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for j := range s.jobs {
			if _, err := d.Submit(ctx, j.task); err != nil {
				s.failed <- submission{j, err}
			}
		}
	}()
	return s
}

// close ends it and returns the jobs that the driver has not taken; all others
// are with the driver. Idempotent.
func (s *submitter) close() (failed []submission) {
	s.cancel()
	if !s.closed {
		s.closed = true
		close(s.jobs)
	}
	for {
		select {
		case f := <-s.failed:
			failed = append(failed, f)
		case <-s.done:
			for len(s.failed) > 0 {
				failed = append(failed, <-s.failed)
			}
			return failed
		}
	}
}

// errDriverEnded says that the driver's own error is the reason.
var errDriverEnded = errors.New("the driver has ended")

// drive runs every input to its end, or until the policy or ctx halts it.
func (e *engine) drive(ctx context.Context, records <-chan record, sub *submitter, abort <-chan struct{}) error {
	interrupted := ctx.Done()
	notice := time.NewTimer(noticeAfter)
	defer notice.Stop()
	var deadline <-chan time.Time // of tasks that were cancelled
	for !e.over() {
		in, jobs := e.gates(records, sub)
		select {
		case rec, ok := <-in:
			if err := e.input(rec, ok); err != nil {
				return err
			}
		case jobs <- e.next:
			e.next = nil
			e.out++
		case f := <-sub.failed:
			if err := e.notTaken(f); err != nil {
				return err
			}
		case r, ok := <-e.drv.Results():
			if !ok {
				return errDriverEnded
			}
			if err := e.result(&r); err != nil {
				return err
			}
			if e.haltNow() {
				if err := e.close(sub, e.p.Halt.When == HaltNow); err != nil {
					return err
				}
			}
		case <-notice.C:
			e.waiting()
		case <-interrupted:
			interrupted = nil
			timer := time.NewTimer(cancelGrace)
			defer timer.Stop()
			deadline = timer.C
			if err := e.close(sub, true); err != nil {
				return err
			}
		case <-deadline:
			return ctx.Err()
		case <-abort:
			return context.Canceled
		}
	}
	return ctx.Err()
}

// gates returns the channels that may be used now; nil means "not now".
func (e *engine) gates(records <-chan record, sub *submitter) (in <-chan record, jobs chan<- *job) {
	if e.closing {
		return nil, nil
	}
	if e.next == nil && len(e.again) > 0 {
		e.next, e.again = e.again[0], e.again[1:]
	}
	if e.next != nil {
		return nil, sub.jobs
	}
	ahead := e.p.KeepOrder && e.sum.Tasks-e.print.due >= maxAhead
	if !e.read && !ahead && (e.own < maxTransferAhead || e.out == 0) {
		in = records
	}
	return in, nil
}

func (e *engine) over() bool {
	return e.out == 0 && (e.closing || e.read && e.next == nil && len(e.again) == 0)
}

// input makes a job of a record.
func (e *engine) input(rec record, ok bool) error {
	if !ok {
		e.read = true
		return nil
	}
	if rec.err != nil {
		return rec.err
	}
	e.sum.Tasks++
	if e.total < 0 {
		e.bar.total(e.sum.Tasks)
	}
	j := &job{seq: e.sum.Tasks, inputs: rec.inputs}
	files, err := e.p.transfer.files(j.inputs, j.seq)
	if err != nil {
		return e.fail(j, err)
	}
	j.own = e.p.transfer.ownBytes(files)
	e.own += j.own
	j.task = driver.Task{
		Argv: []string{shell, "-c", e.p.command.Expand(j.inputs, j.seq)},
		Env:  e.p.env, Dir: e.p.Chdir, Timeout: e.p.Timeout, Files: files, Tag: j,
	}
	e.next = j
	return nil
}

// notTaken handles a job that the driver did not take.
func (e *engine) notTaken(f submission) error {
	e.out--
	switch {
	case errors.Is(f.err, model.ErrInvalid), errors.Is(f.err, model.ErrTooLarge):
		return e.fail(f.job, f.err)
	case e.closing:
		return e.notDone(f.job)
	}
	return errDriverEnded
}

// close stops the starting of tasks; kill ends those that run too.
func (e *engine) close(sub *submitter, kill bool) error {
	if !e.closing {
		e.closing = true
		for _, f := range sub.close() {
			if err := e.notTaken(f); err != nil {
				return err
			}
		}
		for _, j := range append(e.again, e.next) {
			if j == nil {
				continue
			}
			if err := e.notDone(j); err != nil {
				return err
			}
		}
		e.again, e.next = nil, nil
	}
	if e.drv.App() == "" {
		return nil // not registered yet: it has taken nothing
	}
	end := e.drv.CancelQueued
	if kill {
		end = e.drv.CancelAll
	}
	if end() != nil {
		return errDriverEnded
	}
	return nil
}

// haltNow reports, once, that the policy is reached.
func (e *engine) haltNow() bool {
	if e.halted || e.closing || !e.p.Halt.reached(e.sum.Failed, e.sum.Succeeded) {
		return false
	}
	e.halted = true
	return true
}

// result takes what came of one attempt.
func (e *engine) result(r *driver.Result) error {
	e.out--
	j, ok := r.Tag.(*job)
	if !ok {
		return fmt.Errorf("task %d: %w: it is not of this run", r.ID, model.ErrInvalid)
	}
	j.tries++
	e.sum.Reruns += r.Reruns
	if e.closing && r.Outcome == model.TaskKilled {
		outputOf(r).close()
		return e.notDone(j)
	}
	code, text := verdict(r)
	if code != 0 && !e.closing && j.tries <= e.p.Retries {
		e.sum.Retried++
		outputOf(r).close()
		e.again = append(e.again, j)
		return nil
	}
	o := outputOf(r)
	if text != "" {
		o.notes = fmt.Sprintf("hearth: task %d (%s): %s\n", j.seq, shortInputs(j.inputs), text)
	}
	return e.end(j, o, code, r)
}

// verdict is the exit code of an attempt, and what there is to say about it.
func verdict(r *driver.Result) (code int, text string) {
	switch r.Outcome {
	case model.TaskDone:
		code = r.ExitCode
		if r.Signal != 0 {
			code, text = codeSignal+r.Signal, fmt.Sprintf("ended by signal %d", r.Signal)
		} else if code < 0 {
			code, text = codeNotRun, "its exit status is unknown"
		}
	case model.TaskTimedOut:
		code, text = codeTimedOut, fmt.Sprintf("timed out after %s", time.Duration(r.RuntimeMicro)*time.Microsecond)
	case model.TaskKilled:
		code, text = codeSignal+9, "cancelled"
	default:
		code, text = codeNotRun, "could not be run"
	}
	if r.Error != "" {
		text = strings.TrimPrefix(text+": "+r.Error, ": ")
	}
	if r.OutputErr != nil {
		if code == 0 {
			code = codeNotRun // incomplete output is no success
		}
		text = strings.TrimPrefix(text+"; its output is not complete: "+r.OutputErr.Error(), "; ")
	}
	return code, text
}

// fail ends a job that never became a task.
func (e *engine) fail(j *job, err error) error {
	o := &taskOutput{notes: fmt.Sprintf("hearth: task %d (%s): could not be run: %v\n", j.seq, shortInputs(j.inputs), err)}
	return e.end(j, o, codeNotRun, &driver.Result{})
}

// end is the end of a job after its last attempt.
func (e *engine) end(j *job, o *taskOutput, code int, r *driver.Result) error {
	if code == 0 {
		e.sum.Succeeded++
	} else {
		if e.sum.Failed++; e.sum.Failed == 1 {
			e.code = code
		}
	}
	e.own -= j.own
	e.bar.ended()
	if e.p.ResultsDir != "" {
		if err := o.save(e.p.ResultsDir, j.seq, code); err != nil {
			o.close()
			return err
		}
	}
	err := e.print.add(j.seq, o)
	if e.ended != nil {
		e.ended(TaskEnd{Seq: j.seq, Inputs: j.inputs, ExitCode: code, Tries: j.tries, Reruns: r.Reruns, Host: r.Host})
	}
	return err
}

// notDone is the end of a job that was not run, or not to its end.
func (e *engine) notDone(j *job) error {
	e.sum.NotDone++
	e.own -= j.own
	return e.print.add(j.seq, nil)
}

// maxShown bounds an input in a message.
const maxShown = 60

func shortInputs(inputs []string) string {
	s := strings.Join(inputs, " ")
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// openSpill is where the driver puts long output.
func openSpill(driver.Spill) (io.WriteCloser, error) {
	f, err := tempFile()
	if err != nil {
		return nil, err
	}
	return f, nil
}
