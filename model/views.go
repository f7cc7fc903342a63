package model

// The views are what people are shown: the CLI's tables and JSON and the HTTP
// endpoint come from these structs alone. JSON names are snake_case with units
// in them; a field is never removed or retyped within a schema version.

// ViewVersion is the schema version of every view.
const ViewVersion = 1

// Staleness says where a view comes from.
type Staleness struct {
	Master        MasterID `json:"master"`
	Leader        MasterID `json:"leader"` // "" = none known
	LeaderAddr    string   `json:"leader_addr"`
	AppliedIndex  uint64   `json:"applied_index"`
	Term          uint64   `json:"term"`
	LagMilli      int64    `json:"lag_ms"`            // since the last contact with the leader; 0 on the leader
	LeaderlessFor int64    `json:"leaderless_for_ms"` // 0 = there is a leader
}

// ClusterView is `hearth status`.
type ClusterView struct {
	Version   int          `json:"version"`
	Cluster   string       `json:"cluster"`
	Epoch     uint64       `json:"epoch"`
	Staleness Staleness    `json:"staleness"`
	StateHash string       `json:"state_hash"`
	Masters   []MasterView `json:"masters"`
	Workers   []WorkerView `json:"workers"`
	Apps      []AppView    `json:"apps"` // active ones
	EndedApps int          `json:"ended_apps"`
	Alarms    []AlarmView  `json:"alarms"` // what the answering master has found wrong and is still so
	Access    Access       `json:"access"` // what the answering master asks of people; "" from one that does not say
}

// Access is what a master asks of people who call it (ADR 0028).
type Access string

// What is asked of people.
const (
	AccessOpen        Access = "OPEN"                  // nothing
	AccessToken       Access = "TOKEN"                 // a token, without TLS
	AccessCertificate Access = "CERTIFICATE"           // a client's certificate
	AccessBoth        Access = "CERTIFICATE_AND_TOKEN" // both
)

// AccessOf returns what is asked of people by a master with TLS or without,
// with tokens required or not.
func AccessOf(tls, tokens bool) Access {
	switch {
	case tls && tokens:
		return AccessBoth
	case tls:
		return AccessCertificate
	case tokens:
		return AccessToken
	}
	return AccessOpen
}

// Text says it in a sentence; "" for a value that is not known here.
func (a Access) Text() string {
	switch a {
	case AccessOpen:
		return "nothing is asked of people: whoever reaches a master is an operator"
	case AccessToken:
		return "people need a token; there is no TLS"
	case AccessCertificate:
		return "people need a client's certificate, which makes them operators; tokens are not required"
	case AccessBoth:
		return "people need a client's certificate and a token"
	}
	return ""
}

// AlarmView is something wrong that needs a person, for as long as it lasts.
type AlarmView struct {
	Kind    AlarmKind `json:"kind"`
	Subject string    `json:"subject"` // the id of what it is about
	Since   string    `json:"since"`
	Text    string    `json:"text"`
}

// AlarmKind is what is wrong.
type AlarmKind string

// Kinds of alarm.
const (
	// AlarmStoreStalled: the disk of a standby does not answer. It is raised by
	// that standby.
	AlarmStoreStalled AlarmKind = "STORE_STALLED"
	// AlarmMasterStuck: the log of a voter does not advance. It is raised by
	// the leader.
	AlarmMasterStuck AlarmKind = "MASTER_STUCK"
	// AlarmStatesDiffer: the masters' states differ and no majority agrees. It
	// is raised by the leader.
	AlarmStatesDiffer AlarmKind = "STATES_DIFFER"
	// AlarmNameUnresolved: a member advertises a name that does not resolve at
	// the master that raises it.
	AlarmNameUnresolved AlarmKind = "NAME_UNRESOLVED"
)

// MasterView is one master.
type MasterView struct {
	ID        MasterID   `json:"id"`
	Role      MasterRole `json:"role"`
	Voter     bool       `json:"voter"`
	Alive     bool       `json:"alive"` // by gossip
	Healthy   bool       `json:"healthy"`
	GRPCAddr  string     `json:"grpc_addr"`
	RaftAddr  string     `json:"raft_addr"`
	SerfAddr  string     `json:"serf_addr"`
	HTTPAddr  string     `json:"http_addr"`
	LastIndex uint64     `json:"last_index"` // 0 = unknown
	Version   string     `json:"build_version"`
}

// WorkerView is one worker.
type WorkerView struct {
	ID             WorkerID            `json:"id"`
	State          WorkerState         `json:"state"`
	Active         bool                `json:"active"`
	Reason         string              `json:"reason"`
	Hostname       string              `json:"hostname"`
	GRPCAddr       string              `json:"grpc_addr"`
	SerfAddr       string              `json:"serf_addr"`
	HTTPAddr       string              `json:"http_addr"`
	Incarnation    uint64              `json:"incarnation"`
	Cores          int                 `json:"cores"`
	CoresUsed      int                 `json:"cores_used"`
	MemoryMiB      int64               `json:"memory_mib"`
	MemoryUsedMiB  int64               `json:"memory_used_mib"`
	Resources      map[string][]string `json:"resources"`
	ResourcesUsed  map[string][]string `json:"resources_used"`
	Labels         map[string]string   `json:"labels"`
	Executors      int                 `json:"executors"`
	RegisteredWall string              `json:"registered_at"`
	Version        string              `json:"build_version"`
	// RestartLeft is how long a RESTARTING worker may still be away; 0 in any
	// other state.
	RestartLeft int64 `json:"restart_left_ms"`
	// Drain is absent while the worker is in service.
	Drain *DrainView `json:"drain,omitempty"`
	// CoresFree and MemoryFreeMiB are what new executors and drivers can be
	// placed on now: nothing unless the worker is ALIVE.
	CoresFree     int   `json:"cores_free"`
	MemoryFreeMiB int64 `json:"memory_free_mib"`
	// What the machine has, what of its memory the worker does not offer, and
	// what is in use there, by whomever; 0 = not known.
	CoresTotal        int   `json:"cores_total"`
	MemoryTotalMiB    int64 `json:"memory_total_mib"`
	MemoryReservedMiB int64 `json:"memory_reserved_mib"`
	MemoryHostUsedMiB int64 `json:"memory_host_used_mib"`
}

// DrainView says why and how a worker is out of service.
type DrainView struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	Since  string `json:"since"`
	// DeadlineLeft is how long what runs there is still left alone; -1 = for as
	// long as it takes.
	DeadlineLeft int64 `json:"deadline_left_ms"`
	IdleOnly     bool  `json:"idle_only"`
}

// AppView is one application; Executors is filled by `hearth app ID` only.
type AppView struct {
	Version       int      `json:"version"`
	ID            AppID    `json:"id"`
	Name          string   `json:"name"`
	User          string   `json:"user"`
	Kind          AppKind  `json:"kind"`
	State         AppState `json:"state"`
	Active        bool     `json:"active"`
	Terminal      bool     `json:"terminal"`
	Reason        string   `json:"reason"`
	ExitCode      int      `json:"exit_code"` // of the work once ended
	Cores         int      `json:"cores"`     // granted
	CoresMax      int      `json:"cores_max"` // 0 = no limit
	MemoryMiB     int64    `json:"executor_memory_mib"`
	ExecutorCores int      `json:"executor_cores"` // 0 = unset
	Live          int      `json:"live_executors"`
	Running       int      `json:"running_executors"`
	Target        int      `json:"target_executors"` // -1 = unlimited
	Completed     int      `json:"completed"`
	Completions   int      `json:"completions"`
	Failures      int      `json:"failures"`
	SubmittedAt   string   `json:"submitted_at"`
	StartedAt     string   `json:"started_at"`
	EndedAt       string   `json:"ended_at"`
	Disconnect    string   `json:"disconnect"` // keep or singleton
	Queue         string   `json:"queue"`
	// MinExecutors are placed together or not at all; 0 = no gang.
	MinExecutors int               `json:"min_executors"`
	Require      map[string]string `json:"require"` // labels of workers
	Prefer       map[string]string `json:"prefer"`
	// Driver is the driver in cluster mode that owns it; "" = one in client
	// mode, or none.
	Driver          DriverID `json:"driver"`
	MaxRuntimeMilli int64    `json:"max_runtime_ms"` // by the cluster's clock; 0 = no limit
	// Program is what executors run, "" = Hearth's own executor or a command;
	// ProgramPath is where workers look for it first.
	Program      string `json:"program_sha256"`
	ProgramBytes int64  `json:"program_bytes"`
	ProgramPath  string `json:"program_path"`
	// EndedExecutors counts all executors that have ended, by cause, those
	// included that are not kept; by `hearth app ID` only.
	EndedExecutors map[Cause]int  `json:"ended_executors,omitempty"`
	Executors      []ExecutorView `json:"executors,omitempty"`
	ChangeIndex    uint64         `json:"change_index"`
}

// ExecutorView is one executor.
type ExecutorView struct {
	App       AppID               `json:"app"`
	ID        ExecutorID          `json:"executor"`
	Profile   int                 `json:"profile"`
	Worker    WorkerID            `json:"worker"`
	State     ExecutorState       `json:"state"`
	Active    bool                `json:"active"`
	Terminal  bool                `json:"terminal"`
	Cause     Cause               `json:"cause"`
	Reason    string              `json:"reason"`
	ExitCode  int                 `json:"exit_code"`
	Signal    int                 `json:"signal"`
	PID       int                 `json:"pid"`
	Cores     int                 `json:"cores"`
	MemoryMiB int64               `json:"memory_mib"`
	Resources map[string][]string `json:"resources"`
	PlacedAt  string              `json:"placed_at"`
	EndedAt   string              `json:"ended_at"`
	// StdoutPath and StderrPath lead to its output on the pages of any master;
	// "" = it was not launched yet.
	StdoutPath string `json:"stdout_path"`
	StderrPath string `json:"stderr_path"`
}

// GossipMemberView is one row of `hearth operator gossip members`.
type GossipMemberView struct {
	ID       string `json:"id"`
	Role     string `json:"role"`
	Status   string `json:"status"`
	SerfAddr string `json:"serf_addr"`
	GRPCAddr string `json:"grpc_addr"`
}
