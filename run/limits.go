package run

import "time"

// Limits of one run.
const (
	// MaxFailureCode is the highest exit code that counts failed tasks.
	MaxFailureCode = 101
	// MaxInputBytes bounds one input: a command that holds it must fit into
	// one argument of execve.
	MaxInputBytes = 128 << 10
	// MaxCombinations bounds the product of several input sources.
	MaxCombinations = 10_000_000
	// MaxSourceInputs bounds the inputs of one source if there are several:
	// they are kept in memory.
	MaxSourceInputs = 1_000_000
	// maxAhead bounds how far tasks are started ahead of the one whose output
	// is due with KeepOrder.
	maxAhead = 16384
	// maxHeldBytes is how much output that waits for its turn is kept in
	// memory; more goes to temporary files.
	maxHeldBytes = 64 << 20
	// maxTransferAhead bounds the data of files of tasks that have no result
	// yet; one task may always go.
	maxTransferAhead = 128 << 20
	// minHaltSample is how many tasks must have ended before a percentage of
	// failures is judged.
	minHaltSample = 3
)

// Timings of one run.
const (
	// noticeAfter is when the user is told that nothing runs yet.
	noticeAfter = 3 * time.Second
	// cancelGrace is how long cancelled tasks have to end.
	cancelGrace = 5 * time.Second
	// finishTimeout bounds the end of the application.
	finishTimeout = 15 * time.Second
)

// Exit codes (design 9).
const (
	CodeInterrupted = 130
	CodeUsage       = 254
	CodeFault       = 255
	// codeTimedOut and codeNotRun stand for tasks without an exit code of
	// their own, as timeout(1) and env(1) have it; a signal is 128 plus its
	// number.
	codeTimedOut = 124
	codeNotRun   = 126
	codeSignal   = 128
)
