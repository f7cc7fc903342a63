package driver

import (
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
)

// EventKind says what happened.
type EventKind string

// Events.
const (
	// EventRegistered: the application is committed.
	EventRegistered EventKind = "registered"
	// EventExecutorAdded: the leader has announced an executor.
	EventExecutorAdded EventKind = "executor-added"
	// EventExecutorReady: the executor has proven itself and may get tasks.
	EventExecutorReady EventKind = "executor-ready"
	// EventExecutorBack: it has connected again after its stream broke.
	EventExecutorBack EventKind = "executor-back"
	// EventExecutorSuspect: it is silent and gets no new tasks.
	EventExecutorSuspect EventKind = "executor-suspect"
	// EventExecutorEnded: it is gone; Tasks of its tasks run again.
	EventExecutorEnded EventKind = "executor-ended"
	// EventTaskRerun: a task was lost with its executor and runs again.
	EventTaskRerun EventKind = "task-rerun"
	// EventProfileWaits: Tasks wait for executors of Profile, and none has been there
	// for a while; Reason says why.
	EventProfileWaits EventKind = "profile-waits"
)

// Event is one thing that happened.
type Event struct {
	At       time.Time
	Kind     EventKind
	App      model.AppID
	Executor model.ExecutorID // of executor and task events
	Worker   model.WorkerID
	Host     string
	Task     model.TaskID // of task events
	Attempt  int          // the new attempt
	Tasks    int          // how many tasks were lost with the executor, or wait
	Profile  int          // EventProfileWaits
	Ready    bool         // EventExecutorEnded: it had been ready
	Reason   string
}

// AppEndedError is the error of Run when somebody else has ended the
// application.
type AppEndedError struct {
	App    model.AppID
	State  model.AppState
	Reason string
}

// Error names the application, its state and the reason.
func (e *AppEndedError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("application %s is %s", e.App, e.State)
	}
	return fmt.Sprintf("application %s is %s: %s", e.App, e.State, e.Reason)
}

// Unwrap returns model.ErrEnded.
func (e *AppEndedError) Unwrap() error { return model.ErrEnded }

// errStopped is what Submit, Cancel and Finish get once the driver has ended
// without an error.
var errStopped = errors.New("the driver has ended")

// ExecutorState is what an executor is to its driver.
type ExecutorState string

// States of an executor. An executor that is lost is not in the table.
const (
	// ExecutorAnnounced: the leader has placed it; it has not come yet.
	ExecutorAnnounced ExecutorState = "announced"
	// ExecutorReady: connected, gets tasks.
	ExecutorReady ExecutorState = "ready"
	// ExecutorAway: its stream broke; it may come back.
	ExecutorAway ExecutorState = "away"
	// ExecutorSuspect: silent; gets no new tasks.
	ExecutorSuspect ExecutorState = "suspect"
	// ExecutorLeaving: the leader is ending it; gets no new tasks.
	ExecutorLeaving ExecutorState = "leaving"
)

// ExecutorInfo is a line of the table of executors.
type ExecutorInfo struct {
	ID      model.ExecutorID
	Worker  model.WorkerID
	Host    string
	PID     int
	Cores   int
	State   ExecutorState
	Slots   int // tasks at once
	Running int // tasks held now
	Profile int // its size; 0 = the program's own
}
