package history

import (
	"fmt"
	"sync"
	"time"
)

// Kind is what a client asked for.
type Kind string

// Kinds of operation.
const (
	Register  Kind = "register"
	SetTarget Kind = "set target"
	Kill      Kind = "kill"
	Read      Kind = "read" // a strong one, or one of a replica that is known to be up to date
)

// Outcome is what the client was told.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "done"    // acknowledged
	Ended   Outcome = "ended"   // refused by the state: the application has ended
	Absent  Outcome = "absent"  // refused by the state: there is no such application
	Failed  Outcome = "failed"  // certainly without effect, for a reason outside the state
	Unknown Outcome = "unknown" // may take effect at any time, or never
)

// Operation is one call of one client. Operations with the same Key concern the
// same application: all its registrations carry one request id.
type Operation struct {
	Client int
	Key    string
	Kind   Kind
	App    string // id the client used; "" when it registers
	Target int    // what it asked for, when it registers or sets the target
	Call   time.Duration
	Return time.Duration

	Outcome   Outcome
	GotApp    string // of an acknowledged registration
	GotTarget int    // of a read
	GotEnded  bool   // of a read
	Index     uint64 // of the log, as far as the answer names it; 0 = it does not
}

// String is one line for the report of a failure.
func (o Operation) String() string {
	what := string(o.Kind)
	switch o.Kind {
	case Register, SetTarget:
		what = fmt.Sprintf("%s %d", o.Kind, o.Target)
	case Kill, Read:
	}
	answer := string(o.Outcome)
	switch {
	case o.Outcome == Done && o.Kind == Register:
		answer = o.GotApp
	case o.Outcome == Done && o.Kind == Read && o.GotEnded:
		answer = "it has ended"
	case o.Outcome == Done && o.Kind == Read:
		answer = fmt.Sprintf("target %d", o.GotTarget)
	}
	return fmt.Sprintf("%12s to %12s  client %d: %s %s: %s",
		o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond), o.Client, o.App, what, answer)
}

// Recorder collects the operations of concurrent clients on one clock. The zero
// value is not ready; see NewRecorder.
type Recorder struct {
	start time.Time

	mu  sync.Mutex
	ops []Operation
}

// NewRecorder starts the clock of a history.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Do makes one call between two readings of the clock and records it. The
// function fills in the outcome and what was answered. Safe for concurrent use.
func (r *Recorder) Do(op Operation, call func(*Operation)) Operation {
	op.Call = r.Now()
	call(&op)
	op.Return = r.Now()
	r.Add(op)
	return op
}

// Now reads the clock of the history.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Add records operations with their times, for calls that answer several at
// once. Safe for concurrent use.
func (r *Recorder) Add(ops ...Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, ops...)
}

// Operations copies what was recorded so far.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Operation(nil), r.ops...)
}
