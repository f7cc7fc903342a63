//go:build linux

package workerd

import (
	"time"

	"github.com/hearthd/hearth/model"
)

// Limits of one worker. Each is checked where the thing enters.
const (
	// MaxTombstones is how many ended executors are remembered, so that a late order for one of
	// them does nothing but repeat the answer.
	MaxTombstones = 10_000
	// MaxReportsPerMessage bounds the executors in one report.
	MaxReportsPerMessage = 256
	// MaxKeptApps is how many directories of ended applications are kept for their logs.
	MaxKeptApps = 200
	// MaxKeptAge is how long a directory of an ended application is kept at most.
	MaxKeptAge = 7 * 24 * time.Hour
	// MaxFailureAge is for how long the output of the last executor of an application that failed
	// outlives every other limit.
	MaxFailureAge = 24 * time.Hour
	// MaxLogReaders bounds the logs read at the same time.
	MaxLogReaders = 64
	// MaxKeeperRestarts is how often within KeeperRestartWindow a dead keeper is replaced before
	// the worker gives up.
	MaxKeeperRestarts = 3
	// KeeperRestartWindow is the window of MaxKeeperRestarts.
	KeeperRestartWindow = 10 * time.Minute

	// undialledBeforeProxy is how often the named leader may be out of reach before a standby is
	// asked to pass the session on.
	undialledBeforeProxy = 3

	maxKnownMasters    = 64       // addresses remembered from Welcome and gossip
	maxStateFileBytes  = 64 << 10 // identity, fence, masters
	maxStartsInFlight  = 16       // launches prepared at the same time
	maxDownQueue       = 1024     // orders received and not yet looked at
	maxTogether        = 256      // calls and orders that share a write of the journal
	maxJournalRecord   = 4 << 20
	compactMinRecords  = 4096 // journal records before a compaction is thought of
	compactGarbage     = 4    // compaction when records > live × this
	maxCleanupRetries  = 3
	maxHeaderArgBytes  = 32 << 10
	maxRotatedSegments = 100
	maxUnansweredBeats = 1024
	maxControlConns    = 8
	maxControlRequest  = 4 << 10
	maxControlReply    = 16 << 20 // a status with MaxEntries executors
)

// Times.
const (
	// StopBound is how long a graceful stop may take in all.
	StopBound = 20 * time.Second
	// StopGrace is what executors get between SIGTERM and SIGKILL when the worker stops.
	StopGrace = 10 * time.Second

	controlReadTimeout = 5 * time.Second
	controlBound       = handoverBound + keeperCallTimeout + checkTimeout // of one answer
	identifyTimeout    = 3 * time.Second
	checkTimeout       = 10 * time.Second // for whether the next start can succeed
	handoverBound      = 15 * time.Second // from the request to the keeper's word
	leaderlessStop     = 5 * time.Second  // a stopping worker without a session waits this long for one
	helloTimeout       = 8 * time.Second  // dial, Hello, Welcome with one master
	reasonTimeout      = time.Second      // from a failed Send to the reason
	backoffFirst       = 20 * time.Millisecond
	backoffMax         = time.Second
	reportRepeat       = 2 * time.Second // an unacknowledged report is sent again on the same session
	keeperCallTimeout  = 20 * time.Second
	keeperPoll         = 5 * time.Millisecond
	orphanTimeout      = 20 * time.Second
	cleanupInterval    = 10 * time.Minute
	pruneRest          = time.Minute // between two looks at how large the work directory is
	// programWait is how long a launch waits for its program: less than model.LaunchingMilli, after
	// which the leader kills it. programFetchTimeout bounds the transfer, which goes on without it for
	// the next launch; programPatience is how long nothing may come.
	programWait         = 50 * time.Second
	programFetchTimeout = 10 * time.Minute
	programPatience     = 10 * time.Second
	// artifactWait is how long a launch waits for an artifact that keeps coming, and artifactTell how
	// often the leader is told how much of it is here: several times in model.LaunchingMilli.
	artifactWait    = model.MaxFetchMilli * time.Millisecond
	artifactTell    = 15 * time.Second
	programKillPoll = 200 * time.Millisecond
	followPoll      = 100 * time.Millisecond
	shutdownTimeout = 2 * time.Second
	gossipTimeout   = 3 * time.Second
	agentPatience   = time.Second // with an agent that is at one thing, before its session waits for it
	minBeat         = 10 * time.Millisecond
	maxBeat         = time.Minute
	minDeath        = 50 * time.Millisecond
	silentBeats     = 3 // beats in a row without a word after which a leader may be left
	maxDeath        = time.Hour
)
