package model

// Limits of the replicated state and of what clients may ask. Each is checked
// where the thing enters the system.
const (
	// MaxRequestIDBytes bounds a request id.
	MaxRequestIDBytes = 128
	// MaxNameBytes bounds names of applications, users, profiles, resources.
	MaxNameBytes = 256
	// MaxSpecBytes bounds an application's description, files included.
	MaxSpecBytes = 256 << 10
	// MaxArgs bounds the number of arguments and of environment entries.
	MaxArgs = 4096
	// MaxCores bounds cores in any request or offer.
	MaxCores = 1 << 20
	// MaxMemoryMiB bounds memory in any request or offer (64 TiB).
	MaxMemoryMiB = 64 << 20
	// MaxExecutors bounds a target and a number of completions.
	MaxExecutors = 1 << 20
	// MaxResourceNames bounds the resource names of one worker or profile.
	MaxResourceNames = 64
	// MaxAddresses bounds the addresses of one resource on one worker.
	MaxAddresses = 4096
	// MaxLabels bounds the labels of a worker, and those that an application
	// requires or prefers.
	MaxLabels = 64
	// MaxTotalCores bounds a limit of cores over many workers.
	MaxTotalCores = 1 << 31
	// MaxGang bounds a gang, which must fit into one entry of the log.
	MaxGang = 1024
	// MaxDriversLimit bounds the limit of drivers that are placed at once.
	MaxDriversLimit = 1 << 20
	// MaxGangAfterMilli bounds how long a gang may wait before cores are kept
	// for it (a week).
	MaxGangAfterMilli = 7 * 24 * 3600 * 1000
	// MaxArtifacts bounds the artifacts of a driver.
	MaxArtifacts = 64
	// MaxReasonBytes bounds a reason text kept in the state.
	MaxReasonBytes = 1024

	// MaxFailuresKept bounds the failure window of one application.
	MaxFailuresKept = 64
	// MaxFinishedExecutors is how many ended executors a live app keeps.
	MaxFinishedExecutors = 1000
	// MaxFinishedExecutorsEnded is the same for an ended app.
	MaxFinishedExecutorsEnded = 200
	// MaxEndedApps is how many ended applications are kept.
	MaxEndedApps = 200
	// MaxEndedDrivers is how many ended drivers of cluster mode are kept.
	MaxEndedDrivers = 200
	// MaxDriverAttempts is how many ended attempts a driver keeps.
	MaxDriverAttempts = 10
	// MaxRemembered is how many request results are remembered.
	MaxRemembered = 65536
	// MaxRememberedBytes bounds one remembered result.
	MaxRememberedBytes = 256
	// MaxAudit is how many audit lines are kept.
	MaxAudit = 10000
	// MaxAuditRefusals is how many of them may be about refused calls: whoever
	// may do nothing must not push out what was done.
	MaxAuditRefusals = 2500
	// MaxAuditLines bounds the lines of one command that records them.
	MaxAuditLines = 64
	// MaxTokens is how many tokens of people are kept, expired ones included.
	MaxTokens = 1024
	// MaxTokenNameBytes bounds the name of a token.
	MaxTokenNameBytes = 64
	// MaxGoneWorkers is how many dead or left workers are kept for display.
	MaxGoneWorkers = 200
)

// Failure policy of design 8, in ms of cluster clock and in counts.
const (
	FailureWindowMilli = 10 * 60 * 1000
	StableRunMilli     = 10 * 1000 // a run this long resets the count
	QuickExitMilli     = 10 * 1000 // an exit sooner than this after launch is quick
	QuickFailuresLimit = 3         // … on one worker exclude it for the app
	StartFailuresLimit = 2         // … if the process could not be started
	ExclusionMilli     = 10 * 60 * 1000
	FailuresLimit      = 10 // in the window with nothing running: the app fails
	BackoffFirstMilli  = 1000
	BackoffMaxMilli    = 30 * 1000
)

// Supervision of drivers in cluster mode (design 8), in ms of cluster clock and
// in counts. Failures count within FailureWindowMilli.
const (
	DriverBackoffMaxMilli = 60 * 1000
	// DriverStableMilli: a run this long resets the pause (spark-standalone 1.E).
	DriverStableMilli   = 5 * 1000
	DriverFailuresLimit = 10 // in the window: the driver fails
	// DriverUnprovedMilli is how long a supervised driver is not launched again
	// whose worker went silent without proof that the process is gone.
	DriverUnprovedMilli = 5 * 60 * 1000
)

// Bounds of a token's life, in ms of cluster clock.
const (
	MinTokenMilli = 1000
	MaxTokenMilli = 5 * 366 * 24 * 3600 * 1000
)

// MaxRestartMilli bounds how long a worker may be away for a planned restart,
// in ms of cluster clock.
const MaxRestartMilli = 10 * 60 * 1000

// MaxDrainMilli bounds the deadline of a drain, in ms of cluster clock.
const MaxDrainMilli = 366 * 24 * 3600 * 1000

// Limits of one call that drains workers.
const (
	// MaxDrainWorkers bounds the workers of one command.
	MaxDrainWorkers = 4096
	// MaxWorkerChoices bounds the ids and hosts that name them.
	MaxWorkerChoices = 4096
)

// Deadlines of an executor's states, in ms (design 8).
const (
	PlacedResendMilli  = 5 * 1000
	PlacedLostMilli    = 30 * 1000
	LaunchingMilli     = 60 * 1000
	KillGraceMilli     = 10 * 1000
	CommandSettleMilli = 1000 // a driver-less process that lived this long is RUNNING
)
