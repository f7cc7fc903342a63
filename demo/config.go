package demo

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hearthd/hearth/config"
)

// Sizes of a demonstration. A job that loses a leader and a worker needs a
// quorum and a worker to be left.
const (
	DefaultMasters     = 3
	DefaultWorkers     = 3
	DefaultWorkerCores = 4

	maxMasters    = 9
	maxWorkers    = 64
	minJobMasters = 3
	minJobWorkers = 2
)

// DefaultWorkerMemory is what each worker offers: a number to schedule by,
// nothing is set aside.
const DefaultWorkerMemory = "4g"

// ErrUsage is what errors are that the caller's arguments are to blame for
// (errors.Is); their texts stand alone.
var ErrUsage = errors.New("wrong usage")

type usageError struct{ error }

func (e usageError) Is(target error) bool { return target == ErrUsage }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Config says what to start and what to do with it.
type Config struct {
	// Exe is the binary of all processes, with the verbs master, worker, and
	// demo count.
	Exe string
	// Env is the caller's environment; its HEARTH_ variables are not passed on.
	Env []string
	// Dir holds data and logs; "" makes a temporary directory, which is removed
	// unless something failed or Keep is set.
	Dir string
	// Input is the tree whose files are counted; "" is the .go files of the Go
	// distribution.
	Input string

	Masters      int
	Workers      int
	WorkerCores  int
	WorkerMemory string // such as "4g"

	// Secure gives every process a certificate with its role, gossip a key, and
	// people tokens.
	Secure bool
	// Keep leaves the cluster running.
	Keep bool
	// NoJob only starts the cluster; needs Keep.
	NoJob bool
	// Out gets the time line.
	Out io.Writer
}

// Validate reports every problem; the error is ErrUsage.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.NoJob && !c.Keep {
		bad("--no-job: starts a cluster to use, so it needs --keep")
	}
	if c.NoJob && c.Input != "" {
		bad("--no-job and --input exclude each other")
	}
	leastMasters, leastWorkers, why := 1, 1, ""
	if !c.NoJob {
		leastMasters, leastWorkers, why = minJobMasters, minJobWorkers, ": the job loses one of them"
	}
	if c.Masters < leastMasters || c.Masters > maxMasters {
		bad("--masters %d: must be from %d to %d%s", c.Masters, leastMasters, maxMasters, why)
	}
	if c.Workers < leastWorkers || c.Workers > maxWorkers {
		bad("--workers %d: must be from %d to %d%s", c.Workers, leastWorkers, maxWorkers, why)
	}
	if c.WorkerCores < 1 {
		bad("--worker-cores %d: must be at least 1", c.WorkerCores)
	}
	memory, err := config.ParseMemory(c.WorkerMemory)
	switch {
	case err != nil:
		bad("--worker-memory %q: %w", c.WorkerMemory, err)
	case !c.NoJob && memory < executorMemoryMiB:
		bad("--worker-memory %s: must be at least %d MiB, which an executor of the job has", c.WorkerMemory, executorMemoryMiB)
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

func (c Config) nodeDir(name string) string { return filepath.Join(c.Dir, name) }
