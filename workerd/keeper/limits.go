//go:build linux

package keeper

import (
	"runtime"
	"time"
)

// Limits of the protocol and of what one keeper looks after.
const (
	// MaxFrameBytes bounds the payload of one frame in either direction.
	MaxFrameBytes = 1 << 20
	// MaxEntries bounds running and not yet forgotten keys together.
	MaxEntries = 16_384
	// MaxKeyBytes bounds a key; with the suffix it must fit into a file name.
	MaxKeyBytes = 200
	// MaxArgs bounds the words of a command line.
	MaxArgs = 16_384
	// MaxEnv bounds the variables of an environment.
	MaxEnv = 16_384
	// MaxHeaderBytes bounds the text put at the head of stderr.
	MaxHeaderBytes = 64 << 10
	// MaxKeep bounds how long children may run without an agent.
	MaxKeep = 24 * time.Hour
	// MaxGrace bounds the time between SIGTERM and SIGKILL.
	MaxGrace = time.Hour

	// DefaultLogBytes is the size at which the keeper's own log is rotated; one older file is kept.
	DefaultLogBytes = 8 << 20

	listPageEntries    = 1_000    // entries of one List answer, far below MaxFrameBytes
	maxQueuedReplies   = 64       // answers not yet read by the agent before its requests wait
	maxUnknownConns    = 8        // connections that have not said hello
	maxExitBytes       = 64 << 10 // of the record of one exit
	compactMinRecords  = 4096     // records of exits before the file is rewritten
	compactGarbage     = 4        // and then when there are this many times as many as exits
	maxStatBytes       = 2 << 10  // of /proc/PID/stat: 52 numbers and a short name
	maxEnvironBytes    = 4 << 20  // of /proc/PID/environ read in search of markers
	maxQueuedCalls     = 256      // requests of a client not yet written
	maxExtraGroups     = 64
	copyBufferBytes    = 32 << 10
	smallFrameBytes    = 16 << 10 // of a frame for which there is room before it has come
	readBufferBytes    = 16 << 10 // of a connection, at either end
	maxCgroupDepth     = 8
	scansForGone       = 2  // scans in a row that must find nothing of a key
	maxSupervisorMoves = 64 // processes moved out of the way of a controller
)

// Defaults of output rotation.
const (
	// DefaultRotateBytes is the size at which an output file is rotated.
	DefaultRotateBytes = 64 << 20
	// DefaultRotateFiles counts the files kept per stream, the current one included.
	DefaultRotateFiles = 4
	// MinRotateBytes is the smallest size accepted for rotation.
	MinRotateBytes = 1 << 10
	// MaxRotateFiles bounds the files kept per stream.
	MaxRotateFiles = 100
)

// Times. Those a test must shorten are fields of Config with these defaults.
const (
	// DefaultStuckAfter is how long after SIGKILL a process that is still there is called stuck.
	DefaultStuckAfter = 5 * time.Second
	// DefaultOutputWait bounds the wait for output pipes that somebody else still holds open.
	DefaultOutputWait = 2 * time.Second
	// DefaultFirstContact is how long a new keeper waits for its agent.
	DefaultFirstContact = 10 * time.Second
	// DefaultStopGrace is the grace children get when the keeper itself is asked to end by a signal.
	DefaultStopGrace = 5 * time.Second

	helloTimeout    = 5 * time.Second
	launchTimeout   = 20 * time.Second
	lockWait        = 15 * time.Second // a dying predecessor ends within StuckAfter and the bounds here
	flushTimeout    = 2 * time.Second
	sweepInterval   = 5 * time.Second
	retryInterval   = 10 * time.Millisecond
	firstMemberPoll = 5 * time.Millisecond
	lastMemberPoll  = time.Second
	orphanPoll      = 20 * time.Millisecond
	acceptBackoff   = 50 * time.Millisecond
	finalKillBound  = 5 * time.Second
	leasePoll       = 100 * time.Millisecond // how late a lease may end because the machine was suspended
	leaseIdle       = time.Hour              // nothing is leased, or all that is has been dealt with
)

// parallelStarts is how many processes are made ready at the same time: about as many as there are
// cores, beyond which each only waits longer.
func parallelStarts() int { return max(2, runtime.GOMAXPROCS(0)) }
