package driver

import (
	"time"

	"github.com/hearthd/hearth/model"
)

// Limits of one driver.
const (
	// MaxQueued bounds the tasks that wait for an executor of one profile; Submit
	// blocks while there are that many.
	MaxQueued = 4096
	// MaxUndelivered and MaxUndeliveredBytes bound results that the consumer
	// has not taken yet: beyond either no further task is handed out.
	MaxUndelivered      = 4096
	MaxUndeliveredBytes = 64 << 20
	// MaxReruns is how often a task is run again because its executor was
	// lost; then it is reported as NOT_RUN. A task that kills machines must
	// not walk through the whole cluster, and it is to fail before its
	// application does, of which few failed executors are borne
	// (model.FailuresLimit).
	MaxReruns = 8
	// MaxSlots bounds the tasks at once on one executor, whatever its cores;
	// well below what an executor holds.
	MaxSlots = 512
	// maxAhead and maxAheadBytes bound the calls that wait in one executor for a
	// slot; with those in its slots they are well below what an executor holds.
	maxAhead      = 2048
	maxAheadBytes = 16 << 20
	// aheadMicro is how many microseconds of work wait in an executor.
	aheadMicro = 10_000
	// aheadProcess is up to how many microseconds processes are short enough to be
	// sent ahead: it is many times what a round trip takes on a busy machine.
	aheadProcess = 100_000
	// MaxBatch bounds the tasks and the results in one message. (A message is also
	// cut at about 1 MiB.)
	MaxBatch = 512
	// maxFrameBytes is where a message of calls is cut: at about a record of TLS.
	// What comes in is read into pieces of memory that hold several, and what is
	// larger leaves more of them unused.
	maxFrameBytes = 15 << 10
	// fullBatch is how many tasks are worth a message to an executor that has
	// plenty to do, and how many acknowledgements are worth one without tasks.
	fullBatch = 64
	// maxAckBytes is how many bytes of values an executor keeps for want of an
	// acknowledgement.
	maxAckBytes = 1 << 20
	// pumpBatch is how many results the channel of Results takes at once.
	pumpBatch = 64
	// MaxFetching bounds the ended tasks per executor whose spilled output is
	// still to be fetched, beyond its slots.
	MaxFetching = 16
	// MaxTaskFileBytes bounds the files of one task together: they travel in
	// one message.
	MaxTaskFileBytes = 32 << 20
	// MaxArgument bounds the argument of a function: what is larger is brought to
	// the executors once, not with each task.
	MaxArgument = model.MaxTaskBytes
	// MaxProfile is the highest number of a profile that a task may name. The
	// cluster keeps 256 profiles of an application, the default one among them.
	MaxProfile = 1023
	// MaxPlaces bounds where a task had better run.
	MaxPlaces = 256
	// MaxFunctions bounds the functions of a program.
	MaxFunctions = 4096
	// DefaultAhead is how many arguments of Stream and Map are on the way at once
	// unless WithAhead says otherwise, and MaxAhead the most that it may say.
	DefaultAhead = 4096
	MaxAhead     = 1 << 20
	// MaxBroadcastBytes bounds a broadcast value, encoded.
	MaxBroadcastBytes = 512 << 20
	// taskPageBits is how many tasks a page of the table covers, as a power of two: a
	// quarter of what may wait.
	taskPageBits = 10
	// routeBatch is how many results an application takes at once.
	routeBatch = 256
	// maxContentReads bounds the executors and workers that read content at once;
	// the others wait.
	maxContentReads = 64
	// maxParked bounds executors that have connected before the leader
	// announced them, and the unknown ids that are remembered.
	maxParked = 1024
	// maxGone bounds the remembered ids of executors that have ended; older
	// ones are refused as unknown.
	maxGone = 1 << 16
	// fetchBytes is the size of one piece of fetched output.
	fetchBytes = 256 << 10
	// maxChunks bounds the pieces of output on a stream that the fetcher has
	// not looked at: one, and late answers to questions it gave up.
	maxChunks = 4
	// inboundBuffer is how many messages of executors wait for the loop.
	inboundBuffer = 256
)

// Timings of one driver.
const (
	// DefaultSuspectAfter is how long an executor may be silent before it gets
	// no new tasks, DefaultExecutorTimeout before it is lost (design 8).
	DefaultSuspectAfter    = 10 * time.Second
	DefaultExecutorTimeout = 60 * time.Second
	// DefaultAnnounceWait is how long an executor that the leader has not
	// announced is kept waiting. Only time with a session to the leader counts:
	// any number of failovers may lie between its launch and the moment when
	// the driver hears of it.
	DefaultAnnounceWait = 15 * time.Second
	// DefaultRegisterTimeout bounds the registration of the application.
	DefaultRegisterTimeout = 60 * time.Second
	// DefaultLocalityWait is how long a task waits for an executor of its choice.
	// It is Spark's spark.locality.wait.
	DefaultLocalityWait = 3 * time.Second
	// DefaultBackoff and DefaultMaxBackoff are the pauses between the tries of a
	// call that fails.
	DefaultBackoff    = 100 * time.Millisecond
	DefaultMaxBackoff = 10 * time.Second
	// contentPoll is how often it is looked whether an executor that asks for
	// content has been announced.
	contentPoll = 50 * time.Millisecond
	// fetchBackoffFirst and fetchBackoffMax bound the pauses after a transfer of
	// content that broke.
	fetchBackoffFirst = 20 * time.Millisecond
	fetchBackoffMax   = time.Second
	// allocationInterval is how often dynamic allocation looks at the load, as
	// Spark's, and allocationTimeout bounds one question of it to the leader.
	allocationInterval = 100 * time.Millisecond
	allocationTimeout  = 5 * time.Second
	// recallAfter is how long an executor may end nothing before what waits there is
	// taken back, if others have room.
	recallAfter = 500 * time.Millisecond
	// beatInterval is what executors are told in their welcome.
	beatInterval = time.Second
	// helloTimeout is how long a new stream may say nothing.
	helloTimeout = 5 * time.Second
	// fetchTimeout bounds the wait for one piece of output.
	fetchTimeout = 30 * time.Second
	// killTimeout bounds one call that tells the leader of lost executors;
	// killRetry is the pause before the next one.
	killTimeout = 30 * time.Second
	killRetry   = time.Second
	// stopGrace is how long executors have to go after Stop before their
	// streams are cut.
	stopGrace = time.Second
)
