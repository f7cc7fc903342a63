package raftnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
)

// Presets of the election timing. The value is both the heartbeat and the
// election time-out; a leader that has not reached a quorum for most of it
// (stepDownPercent) steps down.
const (
	PresetFast = "fast" // 50 ms: one rack, idle machines
	PresetLAN  = "lan"  // 300 ms, the default
	PresetRig  = "rig"  // 1 s: overloaded machines, continuous integration
	PresetWAN  = "wan"  // 2 s: masters in different places
)

// Log stores.
const (
	LogStoreWAL  = "wal"    // raft-wal, the default
	LogStoreBolt = "boltdb" // raft-boltdb for the log as well
)

// Limits and defaults.
const (
	DefaultSnapshotThreshold = 8192
	DefaultSnapshotInterval  = time.Minute
	DefaultTrailingLogs      = 10240
	// DefaultMaxInflight is how many entries may await their commit. Two keep
	// the disk and the network busy; more only lengthens what a new leader
	// may have to throw away.
	DefaultMaxInflight = 2
	// DefaultMaxBatchBytes bounds the commands of one entry (ST-20).
	DefaultMaxBatchBytes = 512 << 10
	// MaxQueuedCommands and MaxQueuedBytes bound what waits for a place in an
	// entry; a proposal beyond them is refused as overloaded.
	MaxQueuedCommands = 16384
	MaxQueuedBytes    = 64 << 20

	// snapshotsRetained is how many snapshots stay on disk.
	snapshotsRetained = 2
	// maxAppendEntries bounds the entries of one message to a follower.
	maxAppendEntries = 512
	// commitTimeout is how often the library tells a follower what is committed,
	// news or not, and how soon it tries again to send what was lost with a
	// connection. What is news the follower learns from news.
	commitTimeout = 50 * time.Millisecond
	// stepDownPercent is the part of the heartbeat time-out after which a
	// leader that has not reached a quorum steps down. No code relies on it
	// (ADR 0004), so it need not be short: on a machine that is out of breath
	// half of the time-out passes before the leader's own heartbeats run. It
	// stays below the whole, within which an election may begin elsewhere.
	stepDownPercent = 90
	// lockTimeout is how long an opener waits for another process's lock.
	lockTimeout = 2 * time.Second
	// storeStallLimit is how long one call to the log or stable store may
	// take (HA-13). A leader's heartbeats flow on meanwhile, so nobody else
	// would notice.
	storeStallLimit = 10 * time.Second
	// transferStuckLimit is how long an unfinished leadership transfer may
	// refuse every command before Raft is restarted (HA-15). A transfer that
	// works ends within the election time-out.
	transferStuckLimit    = 5 * time.Second
	transferCheckInterval = time.Second
	transferStuckChecks   = int(transferStuckLimit / transferCheckInterval)
	// drainLimit is how long Close waits for calls into the library to end by
	// themselves before it stops the library under them.
	drainLimit = 2 * time.Second
)

// Config says how one replica runs. The zero value of each optional field
// stands for its default.
type Config struct {
	ID      model.MasterID // required; kept in the data directory by the caller
	DataDir string         // required; the files go to its folder "raft"

	Preset            string        // PresetLAN
	LogStore          string        // LogStoreWAL
	SnapshotThreshold uint64        // entries since the last snapshot
	SnapshotInterval  time.Duration // how often the threshold is looked at
	TrailingLogs      uint64        // entries kept behind a snapshot for slow followers
	MaxInflight       int           // entries that await their commit
	MaxBatchBytes     int           // encoded commands per entry

	// walSegmentBytes is the size of one raft-wal file. Space is given back by
	// the file; small ones let tests see it. 0 means the library's 64 MiB.
	walSegmentBytes int
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	setDefault(&c.Preset, PresetLAN)
	setDefault(&c.LogStore, LogStoreWAL)
	setDefault(&c.SnapshotThreshold, DefaultSnapshotThreshold)
	setDefault(&c.SnapshotInterval, DefaultSnapshotInterval)
	setDefault(&c.TrailingLogs, DefaultTrailingLogs)
	setDefault(&c.MaxInflight, DefaultMaxInflight)
	setDefault(&c.MaxBatchBytes, DefaultMaxBatchBytes)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports every problem of a configuration with defaults.
func (c Config) validate() error {
	var errs []error
	if c.ID == "" || len(c.ID) > maxIDBytes {
		errs = append(errs, fmt.Errorf("id %q: want 1 to %d bytes", c.ID, maxIDBytes))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("data directory: must be set"))
	}
	if _, err := timeoutOf(c.Preset); err != nil {
		errs = append(errs, err)
	}
	if c.LogStore != LogStoreWAL && c.LogStore != LogStoreBolt {
		errs = append(errs, fmt.Errorf("log store %q: want %s or %s", c.LogStore, LogStoreWAL, LogStoreBolt))
	}
	if c.SnapshotInterval < 5*time.Millisecond {
		errs = append(errs, fmt.Errorf("snapshot interval %s: want at least 5ms", c.SnapshotInterval))
	}
	if c.MaxInflight < 1 || c.MaxBatchBytes < 1 {
		errs = append(errs, fmt.Errorf("max inflight %d, max batch bytes %d: want at least 1", c.MaxInflight, c.MaxBatchBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("raft configuration: %w", err)
	}
	return nil
}

// timeoutOf returns the heartbeat and election time-out of a preset.
func timeoutOf(preset string) (time.Duration, error) {
	switch preset {
	case PresetFast:
		return 50 * time.Millisecond, nil
	case PresetLAN:
		return 300 * time.Millisecond, nil
	case PresetRig:
		return time.Second, nil
	case PresetWAN:
		return 2 * time.Second, nil
	}
	return 0, fmt.Errorf("preset %q: want %s, %s, %s or %s", preset, PresetFast, PresetLAN, PresetRig, PresetWAN)
}
