package executor

import "time"

// Limits of one executor.
const (
	// MaxHeldTasks bounds the tasks that run or whose results the driver has
	// not acknowledged. One more is answered NOT_RUN; a driver that goes on
	// until twice as many are held breaks the protocol and ends the executor.
	MaxHeldTasks = 8192
	// MaxChunkBytes bounds one piece of fetched output.
	MaxChunkBytes = 256 << 10
	// MaxSpillBytes bounds the spilled output of one stream of one task; the
	// rest is counted and thrown away.
	MaxSpillBytes = 4 << 30
	// MaxSecretBytes bounds the file with the executor's secret.
	MaxSecretBytes = 4 << 10
	// maxFrameBytes is where a message of several results is cut; see the
	// limit of the same name in package driver.
	maxFrameBytes = 15 << 10
	// maxSendBytes is how much goes out at once, in several messages.
	maxSendBytes = 256 << 10
	// copyBytes is how much output of a process is read at once.
	copyBytes = 32 << 10
	// maxPendingFetches bounds the fetches that wait for the sender; with more
	// the stream is not read until one is answered.
	maxPendingFetches = 64
	// maxPanicStack bounds the stack of a function that panicked.
	maxPanicStack = 16 << 10
	// flushResults is how many results of quick functions are worth a message
	// while others wait to be called.
	flushResults = 256
	// heldPageBits is how many numbers a page of the held tasks covers, as a power of
	// two: a driver hands tasks out in runs of about half as many. maxSparePages
	// bounds the empty pages that are kept.
	heldPageBits  = 6
	maxSparePages = 64
	// maxSpawners bounds the threads that start processes: beyond about the number
	// of cores they only stand in each other's way.
	maxSpawners = 8
	// maxBuryRounds bounds the looks for what a task left behind.
	maxBuryRounds = 200
)

// Timings of one executor.
const (
	// DriverTimeout is how long an executor lives without a word from its
	// driver (design 8).
	DriverTimeout = 30 * time.Second
	// SilenceTimeout is how long an open stream may be silent, the wait for
	// Welcome included, before it is given up and opened anew.
	SilenceTimeout = 10 * time.Second
	// BackoffFirst and BackoffMax bound the pauses between attempts to reach
	// the driver.
	BackoffFirst = 20 * time.Millisecond
	BackoffMax   = time.Second
	// DefaultBeat is the interval of beats if Welcome names none; MinBeat and
	// MaxBeat bound what it may name.
	DefaultBeat = time.Second
	MinBeat     = 50 * time.Millisecond
	MaxBeat     = 5 * time.Second
	// flushAfter is how long the result of a quick function waits for others, and
	// what is called quick.
	flushAfter = 100 * time.Microsecond
	// KillGrace is the time between SIGTERM and SIGKILL of a process, and between
	// the end of a function's context and the report that it does not return.
	KillGrace = 2 * time.Second
	// StopTimeout bounds the end of all tasks when the executor ends; a
	// process that SIGKILL does not end by then is named in the error.
	StopTimeout = 10 * time.Second
	// outputGrace is how long the output of an ended task is read on if
	// somebody who got away still holds it open.
	outputGrace = time.Second
	// sweepInterval is how often orphans are looked for between tasks.
	sweepInterval = time.Second
)

// timing is what tests shorten.
type timing struct {
	driver, silence, killGrace, stop, sweep time.Duration
}

func defaultTiming() timing {
	return timing{
		driver: DriverTimeout, silence: SilenceTimeout, killGrace: KillGrace,
		stop: StopTimeout, sweep: sweepInterval,
	}
}
