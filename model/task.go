package model

// Limits of tasks. Masters never see tasks.
const (
	// MaxTaskOutput is how much of each stream of an exec task travels in its
	// result message; more is spilled to a file beside the executor and
	// fetched in chunks.
	MaxTaskOutput = 256 << 10
	// MaxTransferBytes bounds one file brought along by --transfer.
	MaxTransferBytes = 64 << 20
	// MaxTaskBytes bounds one task message.
	MaxTaskBytes = 4 << 20
)

// TaskID numbers the tasks of one driver from 1.
type TaskID uint64

// ExecTask is one process to run in an executor.
type ExecTask struct {
	ID      TaskID
	Attempt int // from 1
	Argv    []string
	Env     []string // "NAME=value"
	// Dir is an absolute directory, or "" for a fresh one that is removed
	// when the task has ended.
	Dir          string
	TimeoutMilli int64 // 0 = none
	Files        []File
}

// TaskOutcome says how an attempt of a task ended.
type TaskOutcome string

// Outcomes.
const (
	TaskDone     TaskOutcome = "DONE"      // the process ran to its end; see ExitCode
	TaskTimedOut TaskOutcome = "TIMED_OUT" // killed by its timeout
	TaskKilled   TaskOutcome = "KILLED"    // killed because it was cancelled
	TaskNotRun   TaskOutcome = "NOT_RUN"   // could not be started; see Error
)

// TaskResult is the result of one attempt.
type TaskResult struct {
	ID           TaskID
	Attempt      int
	Outcome      TaskOutcome
	ExitCode     int // -1 unless the process exited by itself
	Signal       int
	Error        string
	Stdout       []byte // at most MaxTaskOutput
	Stderr       []byte
	StdoutBytes  int64 // whole size; more than len(Stdout) = spilled
	StderrBytes  int64
	RuntimeMicro int64
	Executor     ExecutorID
}

// ExecutorHello registers an executor with its driver.
type ExecutorHello struct {
	App      AppID
	Executor ExecutorID
	Secret   string
	Cores    int
	Host     string
	PID      int
	// Unacked are results that the driver has not acknowledged; sent again
	// after a reconnect.
	Running []TaskID
}

// ExecutorUp is one message from executor to driver: exactly one field is set.
type ExecutorUp struct {
	Hello *ExecutorHello
	Beat  *Beat
	// Results are repeated after a reconnect until acknowledged.
	Results []TaskResult
	// Chunk answers a Fetch.
	Chunk *OutputChunk
}

// ExecutorDown is one message from driver to executor: exactly one field is
// set.
type ExecutorDown struct {
	Welcome *ExecutorWelcome
	BeatAck *Beat
	Tasks   []ExecTask
	// Ack lists results that the driver has taken.
	Ack []TaskID
	// Cancel kills running tasks.
	Cancel []TaskID
	// Fetch asks for a piece of spilled output.
	Fetch *OutputFetch
	// Stop ends the executor: exit 0.
	Stop bool
}

// ExecutorWelcome accepts an executor.
type ExecutorWelcome struct {
	BeatMilli int64
	// Adopted are the running tasks that the driver still wants; the executor
	// kills the others.
	Adopted []TaskID
}

// OutputFetch asks for up to Limit bytes from Offset of a spilled stream.
type OutputFetch struct {
	ID     TaskID
	Stderr bool
	Offset int64
	Limit  int
}

// OutputChunk answers OutputFetch; an empty Data at an Offset is the end.
type OutputChunk struct {
	ID     TaskID
	Stderr bool
	Offset int64
	Data   []byte
	Error  string
}
