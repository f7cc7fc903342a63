package model

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// driverPrefix begins the ids of drivers in cluster mode.
const driverPrefix = "driver"

// MaxFetchMilli bounds the time in which the launch of a driver may wait for its
// artifacts while more of them comes, in ms.
const MaxFetchMilli = 60 * 60 * 1000

// DriverID names a driver in cluster mode: "driver-20261130061500-0003". The
// last part is a counter held in the replicated state and never reused.
type DriverID string

// DriverIDFor builds the id of the driver with this number. wallMilli is the
// proposer's wall clock in ms since 1970; it is shown in UTC.
func DriverIDFor(wallMilli int64, number uint64) DriverID {
	return DriverID(fmt.Sprintf("%s-%s-%04d", driverPrefix, CompactUTC(wallMilli), number))
}

// Number returns the counter part of the id.
func (d DriverID) Number() (uint64, error) {
	if !IsDriver(AppID(d)) {
		return 0, fmt.Errorf("driver id %q: want driver-YYYYMMDDhhmmss-N", string(d))
	}
	return AppID(d).Number()
}

// Owner is the driver as the owner of processes: what stands in
// ExecutorRef.App for its attempts.
func (d DriverID) Owner() AppID { return AppID(d) }

// Ref names the process of one attempt.
func (d DriverID) Ref(attempt int) ExecutorRef {
	return ExecutorRef{App: d.Owner(), Executor: ExecutorID(attempt)}
}

// DriverRefName is the name of an attempt in its certificate:
// "driver-20261130061500-0003.2" (ADR 0041).
func DriverRefName(ref ExecutorRef) string {
	return string(ref.App) + "." + strconv.Itoa(int(ref.Executor))
}

// ParseDriverRefName is the inverse of DriverRefName; errors wrap ErrInvalid.
func ParseDriverRefName(name string) (ExecutorRef, error) {
	id, number, _ := strings.Cut(name, ".")
	attempt, err := strconv.Atoi(number)
	ref := DriverID(id).Ref(attempt)
	if _, nerr := DriverID(id).Number(); err != nil || nerr != nil || attempt < 1 || DriverRefName(ref) != name {
		return ExecutorRef{}, fmt.Errorf("%w: %q: want the name of an attempt, driver-YYYYMMDDhhmmss-N.ATTEMPT", ErrInvalid, name)
	}
	return ref, nil
}

// IsDriver reports whether the owner of a process is a driver in cluster mode.
func IsDriver(owner AppID) bool { return strings.HasPrefix(string(owner), driverPrefix+"-") }

// DriverState is the state of a driver in cluster mode.
type DriverState string

// Driver states (design 8).
const (
	// DriverSubmitted: it waits for its first worker.
	DriverSubmitted DriverState = "SUBMITTED"
	// DriverRunning: it has a worker; how far its process is, its attempt says.
	DriverRunning DriverState = "RUNNING"
	// DriverRelaunching: an attempt is over, and it waits for the next one.
	DriverRelaunching DriverState = "RELAUNCHING"
	// DriverKilling: it was asked to end, and its process may still be there.
	DriverKilling  DriverState = "KILLING"
	DriverFinished DriverState = "FINISHED" // exit code 0
	DriverFailed   DriverState = "FAILED"   // its process failed
	DriverKilled   DriverState = "KILLED"
	DriverError    DriverState = "ERROR" // it could not be started, or was lost with its worker
)

// driverNext holds the legal transitions; a state absent from the inner list
// cannot follow.
var driverNext = map[DriverState][]DriverState{ //nolint:gochecknoglobals // a constant table
	DriverSubmitted:   {DriverRunning, DriverFailed, DriverKilled},
	DriverRunning:     {DriverRelaunching, DriverKilling, DriverFinished, DriverFailed, DriverKilled, DriverError},
	DriverRelaunching: {DriverRunning, DriverFailed, DriverKilled},
	DriverKilling:     {DriverFinished, DriverFailed, DriverKilled},
}

// DriverStates lists every driver state in order of life.
func DriverStates() []DriverState {
	return []DriverState{
		DriverSubmitted, DriverRunning, DriverRelaunching, DriverKilling,
		DriverFinished, DriverFailed, DriverKilled, DriverError,
	}
}

// CanBecome reports whether next may follow s. A final state has no successor.
func (s DriverState) CanBecome(next DriverState) bool { return slices.Contains(driverNext[s], next) }

// Terminal reports whether the driver has ended.
func (s DriverState) Terminal() bool {
	switch s {
	case DriverFinished, DriverFailed, DriverKilled, DriverError:
		return true
	case DriverSubmitted, DriverRunning, DriverRelaunching, DriverKilling:
	}
	return false
}

// Queued reports whether the driver waits to be placed.
func (s DriverState) Queued() bool { return s == DriverSubmitted || s == DriverRelaunching }

// Artifact is a file that a worker fetches before it starts a driver: once for
// each worker and digest.
type Artifact struct {
	URL    string // http, https, or file: a path on workers
	SHA256 string // lower-case hexadecimal
	Name   string // relative path in the driver's directory, clean, no ".."
	// Executable: it may be run.
	Executable bool
}

// ValidateURL checks where the artifact is fetched from.
func (a Artifact) ValidateURL() error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil:
		return fmt.Errorf("%w: artifact %q: not a URL: %w", ErrInvalid, a.Name, err)
	case u.Scheme == "file":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return fmt.Errorf("%w: artifact %s: a file URL must be file:///absolute/path", ErrInvalid, a.URL)
		}
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: artifact %s: the scheme must be http, https or file", ErrInvalid, u.Redacted())
	case u.Host == "":
		return fmt.Errorf("%w: artifact %s: names no host", ErrInvalid, a.URL)
	}
	if u.User != nil {
		return fmt.Errorf("%w: artifact %s: a URL with a user or password would be shown to everybody who may look: serve it without, its digest protects it", ErrInvalid, u.Redacted())
	}
	return nil
}

func (a Artifact) validate() error {
	if err := a.ValidateURL(); err != nil {
		return err
	}
	if err := ValidDigest(a.SHA256); err != nil {
		return fmt.Errorf("artifact %s: %w", a.URL, err)
	}
	return File{Name: a.Name}.validate()
}

// DriverSpec is what a client submits. It is immutable.
type DriverSpec struct {
	Name      string
	User      string
	Cores     int // at least 1
	MemoryMiB int64
	Resources map[string]int // resource name -> how many addresses
	// Supervise: a driver that fails, or is lost with its worker, is launched
	// again.
	Supervise  bool
	Command    Command
	Files      []File
	Artifacts  []Artifact
	Disconnect DisconnectPolicy // "" = DisconnectKeep
	// MaxRuntimeMilli ends the driver as FAILED after that much cluster clock
	// since its submission; 0 = no limit.
	MaxRuntimeMilli int64
}

// Clone returns a deep copy.
func (s DriverSpec) Clone() DriverSpec {
	s.Resources = maps.Clone(s.Resources)
	s.Command = s.Command.Clone()
	s.Files = slices.Clone(s.Files)
	s.Artifacts = slices.Clone(s.Artifacts)
	return s
}

// Profile is what the driver's process holds.
func (s DriverSpec) Profile() Profile {
	return Profile{Cores: s.Cores, MemoryMiB: s.MemoryMiB, Resources: s.Resources}
}

// Launch is the description that a worker gets of the driver's process: it is
// launched like a copy of a command.
func (s DriverSpec) Launch() AppSpec {
	return AppSpec{
		Name: s.Name, User: s.User, Kind: AppKindCommand, Profile: s.Profile(), Executors: 1,
		Command: s.Command, Files: s.Files, Restart: RestartNever, Disconnect: s.Disconnect, Artifacts: s.Artifacts,
	}
}

// Validate reports every problem of a description at once, each naming the
// field, the value and the rule; the result wraps ErrInvalid or ErrTooLarge.
func (s DriverSpec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	checkName(bad, "name", s.Name, true)
	checkName(bad, "user", s.User, false)
	if s.Cores < 1 || s.Cores > MaxCores {
		bad("driver cores %d: must be between 1 and %d", s.Cores, MaxCores)
	}
	if s.MemoryMiB < 1 || s.MemoryMiB > MaxMemoryMiB {
		bad("driver memory_mib %d: must be between 1 and %d", s.MemoryMiB, MaxMemoryMiB)
	}
	if p := s.Disconnect.Effective(); p != DisconnectKeep && p != DisconnectSingleton {
		bad("disconnect %q: must be %q or %q", s.Disconnect, DisconnectKeep, DisconnectSingleton)
	}
	if s.MaxRuntimeMilli < 0 {
		bad("max_runtime_ms %d: must not be negative", s.MaxRuntimeMilli)
	}
	sized := s.Profile()
	sized.Cores, sized.MemoryMiB = 1, 1 // they are told of above
	errs = append(errs, sized.validate()...)
	errs = append(errs, s.Command.validate()...)
	if len(s.Command.Argv) == 0 {
		bad("command: must not be empty")
	}
	if len(s.Artifacts) > MaxArtifacts {
		bad("artifacts: %d, the limit is %d", len(s.Artifacts), MaxArtifacts)
	}
	names := make(map[string]bool)
	for _, f := range s.Files {
		errs = append(errs, f.validate())
		if names[f.Name] {
			bad("file %q: is given twice", f.Name)
		}
		names[f.Name] = true
	}
	for _, a := range s.Artifacts {
		errs = append(errs, a.validate())
		if names[a.Name] {
			bad("artifact %q: there is another file of that name", a.Name)
		}
		names[a.Name] = true
	}
	if n := s.Launch().bytes(); n > MaxSpecBytes {
		errs = append(errs, fmt.Errorf("%w: the driver's description has %d bytes with its files; the limit is %d: fetch big ones as artifacts", ErrTooLarge, n, MaxSpecBytes))
	}
	return errors.Join(errs...)
}

// Driver is the replicated record of a driver in cluster mode. The process of
// an attempt is an Executor record under Ref.
type Driver struct {
	ID        DriverID
	Number    uint64 // its place in the queue, which it keeps
	RequestID string // of its submission; kept while the record lives
	Principal string
	Spec      DriverSpec
	State     DriverState
	Reason    string // why it is in its state, for a person
	ExitCode  int    // of the work once it has ended, for submit --wait (design 9)

	// Attempt counts the launches; the last one has this number. It is the
	// fence: what is said of an older one changes nothing.
	Attempt int
	Worker  WorkerID // of the last attempt
	// Failures are the points of the cluster clock of failed attempts that
	// still count, oldest first.
	Failures []int64
	// BackoffUntil is the point of the cluster clock before which it is not
	// launched again; Backoff is the last pause in ms.
	BackoffUntil int64
	Backoff      int64
	// Finished keeps the last ended attempts, oldest first.
	Finished []*Executor

	SubmittedWall int64
	SubmittedTick int64
	StartedWall   int64 // first attempt placed
	EndedWall     int64
	EndedTick     int64
	ChangeIndex   uint64
}

// Ref names the process of the last attempt.
func (d *Driver) Ref() ExecutorRef { return d.ID.Ref(d.Attempt) }

// Clone returns a copy whose slices may be changed. Ended attempts and the
// description are shared: they never change again.
func (d *Driver) Clone() *Driver {
	c := *d
	c.Failures = slices.Clone(d.Failures)
	c.Finished = slices.Clone(d.Finished)
	return &c
}

// Overtime reports whether the driver has been there for longer than it may at a
// point of the cluster clock.
func (d *Driver) Overtime(tick int64) bool {
	return d.Spec.MaxRuntimeMilli > 0 && tick-d.SubmittedTick > d.Spec.MaxRuntimeMilli
}

// DriverPlacement is one decision of the scheduler: launch this driver on this
// worker. The FSM counts its attempt.
type DriverPlacement struct {
	Driver      DriverID
	Worker      WorkerID
	Incarnation uint64
	Resources   Resources
	Secret      Secret
}
