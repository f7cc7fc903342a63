//go:build linux

package keeper

import "time"

// Proc identifies a process beyond the reuse of its id: the same three values never name two.
type Proc struct {
	PID int `json:"pid"`
	// StartTicks is the start time in clock ticks since boot (field 22 of /proc/PID/stat).
	StartTicks uint64 `json:"start_time"`
	// BootID is /proc/sys/kernel/random/boot_id at the time.
	BootID string `json:"boot_id"`
}

// Rotation says how an output file is bounded. The zero value means the defaults.
type Rotation struct {
	// Disabled hands the files themselves to the process; they then grow without bound.
	Disabled bool `json:"disabled,omitempty"`
	// MaxBytes of one file; 0 means DefaultRotateBytes.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// KeepFiles counts all files of the stream, the current one included; 0 means
	// DefaultRotateFiles. Older output is in PATH.1, the oldest in PATH.(KeepFiles-1).
	KeepFiles int `json:"keep_files,omitempty"`
}

// User is whom a process runs as; the keeper must be root to run it as somebody else.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// StartRequest describes one process. Standard input is always empty.
type StartRequest struct {
	// Key names the process to the agent, such as "app-20261130061500-0003/3". It may hold letters,
	// digits and the characters ". _ - /", and must not be in use.
	Key string `json:"key"`
	// Argv is the command line; a first word without a slash is looked up in the PATH of Env.
	Argv []string `json:"argv"`
	// Env is the complete environment, with the marker variables named in the package comment.
	Env []string `json:"env"`
	// Dir is the absolute working directory, which must exist.
	Dir string `json:"dir"`
	// Stdout and Stderr are absolute paths, created with mode 0600 and appended to.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Header is written to Stderr before the process starts.
	Header string `json:"header,omitempty"`
	// Rotation bounds both output files.
	Rotation Rotation `json:"rotation"`
	// MemoryLimitMiB is enforced by a cgroup where CgroupSupport allows, 0 means no limit.
	MemoryLimitMiB int64 `json:"memory_limit_mib,omitempty"`
	// Leased ties the process to the Lease that the agent renews; it is refused without one.
	Leased bool `json:"leased,omitempty"`
	// RunAs is the user of the process, nil means the keeper's own.
	RunAs *User `json:"run_as,omitempty"`
}

// Started is the answer to a Start.
type Started struct {
	Proc
	// MemoryLimited says whether the memory limit is enforced.
	MemoryLimited bool `json:"memory_limited"`
}

// State is where an entry is in its life.
type State string

// States of an entry. A killed process is running until it is known to be gone.
const (
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateExited   State = "exited"
)

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code, -1 if the process was ended by a signal.
	Code int `json:"code"`
	// Signal is the number of the ending signal, 0 if the process exited by itself.
	Signal int `json:"signal"`
	// Time is when the end was noticed (wall clock, UTC).
	Time time.Time `json:"time"`
	// OOMKilled says that the kernel killed something of this key at its memory limit.
	OOMKilled bool `json:"oom_killed"`
	// KillRequested says that the agent had asked for the end, or had gone.
	KillRequested bool `json:"kill_requested"`
	// LeaseOver says that the process was ended because its Lease had run out.
	LeaseOver bool `json:"lease_over,omitempty"`
}

// Entry is what the keeper knows of a key.
type Entry struct {
	Key   string `json:"key"`
	State State  `json:"state"`
	Proc  Proc   `json:"proc"`
	// Killing and Stuck qualify StateRunning: asked to end, and still there after SIGKILL.
	Killing bool `json:"killing,omitempty"`
	Stuck   bool `json:"stuck,omitempty"`
	// Exit is set in StateExited only.
	Exit *Exit `json:"exit,omitempty"`
}

// EventKind tells events apart.
type EventKind string

// Kinds of event.
const (
	// EventExited is sent once nothing of the key is left; Entry.Exit is set and on disk.
	EventExited EventKind = "exited"
	// EventStuck is sent when something of the key is still there a while after SIGKILL.
	EventStuck EventKind = "stuck"
)

// Event is pushed to the attached agent. An agent that attaches later finds the same in List.
type Event struct {
	Kind  EventKind `json:"kind"`
	Entry Entry     `json:"entry"`
}

// Info says which keeper answers.
type Info struct {
	Version  int    `json:"version"`
	WorkerID string `json:"worker_id"`
	Proc     Proc   `json:"proc"`
	// MemoryLimits says whether memory limits are enforced; MemoryLimitsWhy says why or why not.
	MemoryLimits    bool   `json:"memory_limits"`
	MemoryLimitsWhy string `json:"memory_limits_why"`
}
