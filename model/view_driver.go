package model

// DriverView is one driver in cluster mode; Attempts is filled by `hearth driver
// status ID` only.
type DriverView struct {
	Version    int            `json:"version"`
	ID         DriverID       `json:"id"`
	Name       string         `json:"name"`
	User       string         `json:"user"`
	State      DriverState    `json:"state"`
	Active     bool           `json:"active"`
	Terminal   bool           `json:"terminal"`
	Reason     string         `json:"reason"`
	ExitCode   int            `json:"exit_code"` // of the work once ended
	Attempt    int            `json:"attempt"`   // the last one; 0 = never launched
	Worker     WorkerID       `json:"worker"`    // of the last attempt
	Cores      int            `json:"cores"`
	MemoryMiB  int64          `json:"memory_mib"`
	Resources  map[string]int `json:"resources"`
	Supervise  bool           `json:"supervise"`
	Disconnect string         `json:"disconnect"` // keep or singleton
	Failures   int            `json:"failures"`   // that count for supervision
	// MaxRuntimeMilli is how long it may be there by the cluster's clock; 0 = no limit.
	MaxRuntimeMilli int64 `json:"max_runtime_ms"`
	// BackoffLeft is how long it is not launched again; 0 = not held back.
	BackoffLeft int64 `json:"backoff_left_ms"`
	// QueuePosition counts from 1 those that wait; 0 = it does not wait.
	QueuePosition int            `json:"queue_position"`
	Command       []string       `json:"command"`
	SubmittedAt   string         `json:"submitted_at"`
	StartedAt     string         `json:"started_at"`
	EndedAt       string         `json:"ended_at"`
	Attempts      []ExecutorView `json:"attempts,omitempty"`
	Apps          []AppID        `json:"apps"` // of it that have not ended
	ChangeIndex   uint64         `json:"change_index"`
}
