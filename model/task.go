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
	// MaxTaskValue bounds what a function returns: it travels in one message.
	MaxTaskValue = 4 << 20
	// MaxFunctionName bounds the name of a function.
	MaxFunctionName = 256
)

// TaskID numbers the tasks of one driver from 1.
type TaskID uint64

// ExecTask is one thing to run in an executor: a process (Argv), or a call of
// a function that the executor's program has registered (Function).
type ExecTask struct {
	ID      TaskID
	Attempt int // from 1
	// Function and Argument are the call; Argv, Env, Dir and Files are not used
	// with it. Argument is handed over without copying: nobody changes it.
	Function string
	Argument []byte
	Argv     []string
	Env      []string // "NAME=value"
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
	TaskDone     TaskOutcome = "DONE"      // the process ran to its end, see ExitCode; the function returned a value
	TaskFailed   TaskOutcome = "FAILED"    // the function returned an error, panicked, or its value is too large; see Error
	TaskTimedOut TaskOutcome = "TIMED_OUT" // ended by its timeout
	TaskKilled   TaskOutcome = "KILLED"    // ended because it was cancelled
	TaskNotRun   TaskOutcome = "NOT_RUN"   // could not be started; see Error
	TaskReturned TaskOutcome = "RETURNED"  // given back to the driver, which wants to run it elsewhere
)

// TaskResult is the result of one attempt.
type TaskResult struct {
	ID           TaskID
	Attempt      int
	Outcome      TaskOutcome
	ExitCode     int // -1 unless the process exited by itself; 0 with the value of a function
	Signal       int
	Error        string
	Stdout       []byte // at most MaxTaskOutput
	Stderr       []byte // of a function that panicked: its stack
	StdoutBytes  int64  // whole size; more than len(Stdout) = spilled
	StderrBytes  int64
	RuntimeMicro int64
	Executor     ExecutorID
	// Value is what a function returned, at most MaxTaskValue. It may share its
	// memory with other results of the same message.
	Value []byte
}

// ExecutorHello registers an executor with its driver.
type ExecutorHello struct {
	App      AppID
	Executor ExecutorID
	Secret   Secret
	Cores    int
	Host     string
	PID      int
	// Running are the tasks that run and those whose results the driver has not
	// acknowledged; these are sent again after a reconnect.
	Running []TaskID
	// Holds is how many tasks it holds at most, those that wait for a slot
	// included. 0 = an executor that starts each as it comes, and takes tasks and
	// acknowledgements in separate messages only.
	Holds int
	// Queues: it keeps processes, too, until a slot is free, and gives back what
	// Recall asks for.
	Queues bool
}

// ExecutorUp is one message from executor to driver.
type ExecutorUp struct {
	Hello *ExecutorHello
	Beat  *Beat
	// Results are repeated after a reconnect until acknowledged.
	Results []TaskResult
	// Chunk answers a Fetch.
	Chunk *OutputChunk
	// Lingering says how many slots are taken by functions that do not end
	// although their tasks are over; it is sent when it changes, and after each
	// Welcome if it is not 0.
	Lingering *int
}

// ExecutorDown is one message from driver to executor. What is in one message
// is meant in the order Ack, Tasks, Cancel.
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
	// Recall asks for tasks back that have not begun; the others run on.
	Recall []TaskID
}

// ExecutorWelcome accepts an executor.
type ExecutorWelcome struct {
	BeatMilli int64
	// Adopted are the running tasks that the driver still wants; the executor
	// kills the others.
	Adopted []TaskID
	// Slots is how many functions run at once; the other tasks that the driver
	// has sent wait in the executor. 0 = its cores.
	Slots int
	// Batch is the most results in one message; 0 = no limit.
	Batch int
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
