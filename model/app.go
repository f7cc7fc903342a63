package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ProfileDefault is the profile every application has.
const ProfileDefault = 0

// TargetUnlimited means: as many executors as fit.
const TargetUnlimited = -1

// Profile is the size of one kind of executor (spark-standalone 1.G).
type Profile struct {
	Cores     int // 0 = unset: one executor per worker holding all assigned cores
	MemoryMiB int64
	Resources map[string]int // resource name -> how many addresses
}

// Clone returns a deep copy.
func (p Profile) Clone() Profile {
	p.Resources = maps.Clone(p.Resources)
	return p
}

// Command is a process to run: argv is executed directly, never by a shell.
type Command struct {
	Argv []string
	Env  []string // "NAME=value", added to the small environment of design 8
	Dir  string   // "" = the executor's own directory
}

// Clone returns a deep copy.
func (c Command) Clone() Command {
	c.Argv = slices.Clone(c.Argv)
	c.Env = slices.Clone(c.Env)
	return c
}

// File is a small file that travels with an application and is written into
// each executor's directory before its process starts.
type File struct {
	Name string // relative, clean, no ".."
	Mode uint32 // permission bits
	Data []byte
}

// Restart says what happens when a copy of a driver-less command ends.
type Restart string

// Restart policies of driver-less applications.
const (
	RestartAlways Restart = "always" // replaced while wanted
	RestartNever  Restart = "never"  // the first failure fails the application
)

// DisconnectPolicy says what a worker does with an executor while it cannot
// tell its own isolation from a cluster without a leader (design 7).
type DisconnectPolicy string

// Disconnect policies. The empty one is DisconnectKeep.
const (
	// DisconnectKeep lets the executor run on; what became of it is sorted out
	// when the worker is back.
	DisconnectKeep DisconnectPolicy = "keep"
	// DisconnectSingleton lets no two copies run at once: a cut-off worker ends
	// its copy by itself before the leader replaces it, and the leader waits
	// worker_timeout before it does.
	DisconnectSingleton DisconnectPolicy = "singleton"
)

// Singleton reports whether the policy is DisconnectSingleton.
func (p DisconnectPolicy) Singleton() bool { return p == DisconnectSingleton }

// Effective is the policy with its default filled in.
func (p DisconnectPolicy) Effective() DisconnectPolicy {
	if p == "" {
		return DisconnectKeep
	}
	return p
}

// AppSpec is what a client registers. It is immutable after registration.
type AppSpec struct {
	Name string
	User string
	Kind AppKind
	// CoresMax bounds the cores over all executors; 0 = the cluster's default.
	CoresMax int
	Profile  Profile
	// Executors is the initial target of the default profile, or
	// TargetUnlimited.
	Executors int
	// Command is what an executor of a driver-less application runs.
	Command Command
	Files   []File
	// Completions is how many clean exits end a driver-less application as
	// FINISHED; 0 = none: copies are kept running.
	Completions int
	Restart     Restart
	// MaxRuntimeMilli ends the application as FAILED after that much cluster
	// clock; 0 = no limit.
	MaxRuntimeMilli int64
	// DriverAddr is the host:port where executors reach the driver
	// (AppKindDriver only).
	DriverAddr string
	// DriverCert is the SHA-256, in lower-case hex, of the certificate that the
	// driver shows to its executors (ADR 0027); "" = a plain connection.
	DriverCert string
	// Disconnect is what happens to executors on a worker that is cut off;
	// "" = DisconnectKeep.
	Disconnect DisconnectPolicy
	// Program is what executors run (AppKindDriver only); the zero value is
	// Hearth's own executor.
	Program Program
	// Queue is who the application waits with; "" = QueueDefault.
	Queue string
	// MinExecutors is the size of the gang: fewer executors of the default
	// profile than that, or than are wanted if those are fewer, are never
	// started, and those that are missing are placed together or not at all;
	// 0 and 1 = no gang.
	MinExecutors int
	// Require are labels, with their values, that a worker must have to get
	// executors of this application.
	Require map[string]string
	// Prefer are labels with their values: of workers that the selection policy
	// calls equal, those with more of them come first.
	Prefer map[string]string
	// Driver is the driver in cluster mode whose attempt Attempt has registered
	// the application: with that it ends. "" = a driver in client mode.
	Driver  DriverID
	Attempt int
	// Artifacts are fetched before a process starts. Only the description of a
	// driver's process (DriverSpec.Launch) has any.
	Artifacts []Artifact
}

// Clone returns a deep copy.
func (s AppSpec) Clone() AppSpec {
	s.Profile = s.Profile.Clone()
	s.Command = s.Command.Clone()
	s.Files = slices.Clone(s.Files)
	s.Artifacts = slices.Clone(s.Artifacts)
	s.Require = maps.Clone(s.Require)
	s.Prefer = maps.Clone(s.Prefer)
	return s
}

// Exclusion keeps an application off a worker until a point of the cluster
// clock.
type Exclusion struct {
	Worker    WorkerID
	UntilTick int64
}

// Failure is one counted failure inside the application's window.
type Failure struct {
	Worker WorkerID
	Tick   int64
	Cause  Cause // CauseApp or CauseStart
	Quick  bool  // ended within QuickExitMilli of its launch
}

// App is the replicated record of an application.
type App struct {
	ID        AppID
	Number    uint64
	RequestID string // of its registration; kept while the record lives
	Principal string
	Token     Secret // opens the driver session; secret
	Spec      AppSpec
	State     AppState
	Reason    string // why it ended, for a person
	ExitCode  int    // of the work as a whole, for submit --wait (design 9)

	Profiles map[int]Profile
	Targets  map[int]int

	NextExecutor ExecutorID
	Completed    int // clean exits counted toward Completions
	// CoresGranted is the sum over executors that still hold cores.
	CoresGranted int
	// CoresLeaving is the part of CoresGranted that executors hold which are
	// leaving.
	CoresLeaving int
	// Live counts executors per profile that count against the target.
	Live map[int]int

	Failures []Failure // in the window, oldest first, at most MaxFailuresKept
	Excluded []Exclusion
	// BackoffUntil is the point of the cluster clock before which nothing new
	// is placed; Backoff is the last pause in ms (0 after a stable run).
	BackoffUntil int64
	Backoff      int64

	// Finished keeps the last ended executors, oldest first; older ones are
	// only counted per cause.
	Finished      []*Executor
	FinishedCount map[Cause]int

	SubmittedWall int64
	SubmittedTick int64
	StartedWall   int64 // first executor placed
	EndedWall     int64
	EndedTick     int64
	ChangeIndex   uint64
}

// Clone returns a copy whose maps and slices may be changed. Finished
// executors are shared: they never change again.
func (a *App) Clone() *App {
	c := *a
	c.Profiles = maps.Clone(a.Profiles)
	c.Targets = maps.Clone(a.Targets)
	c.Live = maps.Clone(a.Live)
	c.Failures = slices.Clone(a.Failures)
	c.Excluded = slices.Clone(a.Excluded)
	c.Finished = slices.Clone(a.Finished)
	c.FinishedCount = maps.Clone(a.FinishedCount)
	return &c
}

// Executor is the replicated record of an executor.
type Executor struct {
	App         AppID
	ID          ExecutorID
	Profile     int
	Worker      WorkerID
	Incarnation uint64 // of the worker when the executor was placed
	Cores       int
	MemoryMiB   int64
	Resources   Resources
	State       ExecutorState
	Reason      string
	Cause       Cause // why it ended; set before that only if it is killed for having failed
	ExitCode    int   // of the process; -1 while unknown
	Signal      int   // that ended it; 0 = none
	PID         int
	// Secret proves the executor to its driver. Never shown.
	Secret Secret
	// Leaving: its worker was drained while it ran. It counts against no limit
	// of its application any more, and its end is nobody's failure.
	Leaving bool

	PlacedTick  int64
	LaunchTick  int64 // process started; 0 = not yet
	RunningTick int64
	StateTick   int64
	PlacedWall  int64
	EndedWall   int64
	ChangeIndex uint64
}

// Ref names the executor.
func (e *Executor) Ref() ExecutorRef { return ExecutorRef{App: e.App, Executor: e.ID} }

// Failure says how the executor failed, for a person.
func (e *Executor) Failure() string {
	switch {
	case e.Cause == CauseStart:
		return endWords("it", "could not be started", e.Reason)
	case e.Signal > 0:
		return endWords("", fmt.Sprintf("signal %d", e.Signal), e.Reason)
	}
	return endWords("", fmt.Sprintf("exit code %d", e.ExitCode), e.Reason)
}

// endWords says how a process of who ended and why. Most reasons say how, too:
// then they are enough.
func endWords(who, how, reason string) string {
	if strings.Contains(reason, how) {
		return reason
	}
	if who != "" {
		how = who + " " + how
	}
	if reason != "" {
		how += " (" + reason + ")"
	}
	return how
}

// Clone returns a copy; Resources are shared because they never change.
func (e *Executor) Clone() *Executor { c := *e; return &c }

// SelectionPolicy orders candidate workers (spark-standalone 1.F).
type SelectionPolicy string

// Selection policies with Spark's names; ties are part of each rule.
const (
	CoresFreeDesc  SelectionPolicy = "CORES_FREE_DESC"
	CoresFreeAsc   SelectionPolicy = "CORES_FREE_ASC"
	MemoryFreeDesc SelectionPolicy = "MEMORY_FREE_DESC"
	MemoryFreeAsc  SelectionPolicy = "MEMORY_FREE_ASC"
	ByWorkerID     SelectionPolicy = "WORKER_ID"
)

// SelectionPolicies lists them all.
func SelectionPolicies() []SelectionPolicy {
	return []SelectionPolicy{CoresFreeDesc, CoresFreeAsc, MemoryFreeDesc, MemoryFreeAsc, ByWorkerID}
}

// Placement is one decision of the scheduler: start an executor of this
// profile on this worker. The FSM allots the executor's id.
type Placement struct {
	App         AppID
	Profile     int
	Worker      WorkerID
	Incarnation uint64
	Cores       int
	MemoryMiB   int64
	Resources   Resources
	Secret      Secret
	// Gang joins neighbours of one plan that have the same number: they are
	// placed together or not at all. 0 = by itself.
	Gang uint32
}
