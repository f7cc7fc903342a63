package model

// Why says why an application or driver waits, as far as the answering master
// knows: the closed list of reasons with their numbers, the one that matters
// most first. It is made on demand and never stored, so it cannot be stale.
type Why struct {
	Version   int       `json:"version"`
	Staleness Staleness `json:"staleness"`
	ID        string    `json:"id"`
	Kind      WhyKind   `json:"kind"`
	Name      string    `json:"name"`
	User      string    `json:"user"`
	Queue     string    `json:"queue"`
	State     string    `json:"state"`
	// Waiting: it wants something that it has not got. An application without
	// a target that holds all it can get at the moment does not wait.
	Waiting bool `json:"waiting"`
	// Never: nothing of what it waits for can come, however long it waits,
	// unless the cluster, a setting or the application changes.
	Never bool `json:"never"`
	// Text is the whole answer in one line, "" if there is nothing to say.
	Text        string      `json:"text"`
	Reasons     []WhyReason `json:"reasons"`
	Wanted      int         `json:"wanted"` // executors over all profiles; -1 = as many as fit; 1 for a driver
	Live        int         `json:"live"`   // of those, the ones that it has
	Cores       int         `json:"cores"`  // granted
	SubmittedAt string      `json:"submitted_at"`
	// AgeMilli is for how long it has waited, by the cluster's clock: since it
	// was submitted, or last lost what it waits for; 0 if it does not wait.
	AgeMilli int64 `json:"age_ms"`
}

// WhyKind is what waits.
type WhyKind string

// Kinds of what waits.
const (
	WhyApp    WhyKind = "app"
	WhyDriver WhyKind = "driver"
)

// WhyReason is one reason with its numbers. Fields that do not belong to a code
// are zero.
type WhyReason struct {
	Code WhyCode `json:"code"`
	Text string  `json:"text"`
	// Never: this does not end by itself.
	Never   bool `json:"never"`
	Profile int  `json:"profile"`
	// Resource is "cores", "memory_mib" or the name of a custom resource.
	Resource string `json:"resource"`
	Need     int64  `json:"need"`    // of the resource, for one executor or driver
	Have     int64  `json:"have"`    // the most that one worker offers (NEVER_FITS) or has free (BUSY), or what is held of Limit
	Missing  int64  `json:"missing"` // how much more it would take
	Limit    int64  `json:"limit"`   // of a cap, in cores or drivers
	// Workers counts the workers that the reason is about; WorkerIDs names the
	// first few of them.
	Workers   int        `json:"workers"`
	WorkerIDs []WorkerID `json:"worker_ids"`
	// Holders are those that hold what is missing, or wait ahead, the largest
	// first; the first few of them.
	Holders []WhyHolder `json:"holders"`
	// LeftMilli is after how long it ends by itself, by the cluster's clock; 0
	// = not known.
	LeftMilli int64 `json:"left_ms"`
}

// WhyHolder is an application or driver that is in the way.
type WhyHolder struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	User    string `json:"user"`
	Amount  int64  `json:"amount"`  // of the reason's resource; of AHEAD, the executors that it waits for
	Percent int    `json:"percent"` // of what the cluster's workers offer; 0 for AHEAD
}

// WhyCode is the closed list of reasons for which something waits.
type WhyCode string

// Reasons.
const (
	// WhyNoLeader: no master leads, so nothing is placed.
	WhyNoLeader WhyCode = "NO_LEADER"
	// WhyQuarantine: the leader leaves the application alone after a fault of
	// its own.
	WhyQuarantine WhyCode = "QUARANTINE"
	// WhyBackoff: it pauses after failures or a clean exit.
	WhyBackoff WhyCode = "BACKOFF"
	// WhyNoWorkers: no worker is registered.
	WhyNoWorkers WhyCode = "NO_WORKERS"
	// WhyNoLabel: no worker has the labels that it requires.
	WhyNoLabel WhyCode = "NO_LABEL"
	// WhyNeverFits: no worker offers enough, used or not.
	WhyNeverFits WhyCode = "NEVER_FITS"
	// WhyExcluded: it has failed on the workers that could hold it.
	WhyExcluded WhyCode = "EXCLUDED"
	// WhyWorkersAway: workers that could hold it get nothing new at the moment:
	// unreachable, restarting, draining, or holding more than they offer.
	WhyWorkersAway WhyCode = "WORKERS_AWAY"
	// WhyBusy: others hold what it needs.
	WhyBusy WhyCode = "BUSY"
	// WhyLeftOver: cores are free that no whole executor fits into.
	WhyLeftOver WhyCode = "LEFT_OVER"
	// WhyAhead: others that wait too come first.
	WhyAhead WhyCode = "AHEAD"
	// WhyGang: it takes its executors together or not at all.
	WhyGang WhyCode = "GANG"
	// WhyWithheld: free cores are kept for a gang that has waited longest.
	WhyWithheld WhyCode = "WITHHELD"
	// WhyCoresMax: it holds all the cores that it asked for.
	WhyCoresMax WhyCode = "CORES_MAX"
	// WhyDefaultCores: the same with the cluster's limit for applications that
	// ask for none.
	WhyDefaultCores WhyCode = "DEFAULT_CORES"
	// WhyUserCap: the user's applications hold all they may.
	WhyUserCap WhyCode = "USER_CAP"
	// WhyQueueCap: the applications of the queue hold all they may.
	WhyQueueCap WhyCode = "QUEUE_CAP"
	// WhyMaxDrivers: as many drivers run as may.
	WhyMaxDrivers WhyCode = "MAX_DRIVERS"
	// WhyDriverShare: drivers hold all the cores that they may.
	WhyDriverShare WhyCode = "DRIVER_SHARE"
	// WhyEnding: processes that are being ended still hold what it needs.
	WhyEnding WhyCode = "ENDING"
	// WhyStarting: it has a place; the process is not up yet.
	WhyStarting WhyCode = "STARTING"
	// WhyNext: there is room; the next pass of the scheduler places it.
	WhyNext WhyCode = "NEXT"
)

// WhyCodes lists them all.
func WhyCodes() []WhyCode {
	return []WhyCode{
		WhyNoLeader, WhyQuarantine, WhyBackoff, WhyNoWorkers, WhyNoLabel, WhyNeverFits, WhyExcluded, WhyWorkersAway,
		WhyBusy, WhyLeftOver, WhyAhead, WhyGang, WhyWithheld, WhyCoresMax, WhyDefaultCores, WhyUserCap, WhyQueueCap,
		WhyMaxDrivers, WhyDriverShare, WhyEnding, WhyStarting, WhyNext,
	}
}

// Names of the resources that every worker has, in reasons.
const (
	ResourceCores  = "cores"
	ResourceMemory = "memory_mib"
)

// WaitingView is `hearth queue`: everything that waits, in the order in which
// the scheduler looks at it, drivers first.
type WaitingView struct {
	Version   int       `json:"version"`
	Staleness Staleness `json:"staleness"`
	Waiting   []Why     `json:"waiting"` // their Staleness is zero
}
