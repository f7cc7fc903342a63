package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/hearthd/hearth/model"
)

// CallError says why a call has no value.
type CallError struct {
	Function string
	Task     model.TaskID // of the last try
	Executor model.ExecutorID
	Host     string
	// Outcome is FAILED (the function returned an error or panicked), TIMED_OUT,
	// KILLED (cancelled) or NOT_RUN (no executor could run it).
	Outcome model.TaskOutcome
	Tries   int // how often the function was tried
	Reruns  int // how often the last try was lost with its executor
	// Message is the text of the function's error, at most model.MaxReasonBytes.
	Message string
	// Stack is where the function panicked; "" = it did not.
	Stack string
}

// Error names the function, what became of it, where, and the cause. It is one
// line: Stack is left out.
func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "function %q", e.Function)
	switch e.Outcome {
	case model.TaskFailed, model.TaskDone:
		b.WriteString(" failed")
	case model.TaskTimedOut:
		b.WriteString(" timed out")
	case model.TaskKilled:
		b.WriteString(" was cancelled")
	case model.TaskNotRun, model.TaskReturned:
		b.WriteString(" was not run")
	}
	if e.Executor >= 0 {
		fmt.Fprintf(&b, " on executor %d", e.Executor)
		if e.Host != "" {
			fmt.Fprintf(&b, " (%s)", e.Host)
		}
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " at the last of %d tries", e.Tries)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// Unwrap is context.DeadlineExceeded for a time-out and context.Canceled for a
// cancelled call.
func (e *CallError) Unwrap() error {
	switch e.Outcome {
	case model.TaskTimedOut:
		return context.DeadlineExceeded
	case model.TaskKilled:
		return context.Canceled
	case model.TaskFailed, model.TaskDone, model.TaskNotRun, model.TaskReturned:
	}
	return nil
}

// Panicked reports whether the function panicked.
func (e *CallError) Panicked() bool { return e.Stack != "" }

// callError makes the error of a result; nil if it has a value.
func callError(function string, r *Result, tries int) *CallError {
	if r.Outcome == model.TaskDone {
		return nil
	}
	return &CallError{
		Function: function, Task: r.ID, Executor: r.Executor, Host: r.Host, Outcome: r.Outcome,
		Tries: tries, Reruns: r.Reruns, Message: r.Error, Stack: string(r.Stderr),
	}
}
