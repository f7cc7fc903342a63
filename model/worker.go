package model

import (
	"fmt"
	"maps"
	"slices"
)

// Resources maps a resource name such as "gpu" to the addresses offered or
// taken, in the order in which they are handed out.
type Resources map[string][]string

// Clone returns a deep copy.
func (r Resources) Clone() Resources {
	if r == nil {
		return nil
	}
	out := make(Resources, len(r))
	for k, v := range r {
		out[k] = slices.Clone(v)
	}
	return out
}

// Worker is the replicated record of a worker.
type Worker struct {
	ID          WorkerID
	Incarnation uint64 // counts the worker's starts; orders and reports of another one are stale
	BootID      string // of the machine
	Offer       Offer
	State       WorkerState
	StateReason string
	// ReportSeq is the highest report sequence applied for this incarnation.
	ReportSeq      uint64
	RegisteredWall int64 // ms since 1970, for display
	StateWall      int64 // ms since 1970, for display
	StateTick      int64 // cluster clock, ms
	// RestartUntil is the cluster clock, in ms, until which a RESTARTING
	// worker may be away; 0 in any other state.
	RestartUntil int64
	// HeardTick is the cluster clock, in ms, at which the last Hello or report
	// of the worker was applied. A verdict on older evidence is refused.
	HeardTick int64
	// Overcommitted: the offer was lowered below what its executors hold.
	// Nothing new is placed until enough of them have ended.
	Overcommitted bool
	// Certificate is the name in the certificate that registered the worker
	// first; "" = it came without TLS. Only its holder may speak for the worker.
	Certificate string
	// Drain is why the worker is out of service; nil = it is not. It outlives
	// restarts of the worker, its death and its leaving: only the end of the
	// drain ends it. It is replaced as a whole, never changed.
	Drain       *Drain
	ChangeIndex uint64
}

// Drain takes a worker out of service (ADR 0036): nothing new is placed there,
// and what runs is moved, or waited for.
type Drain struct {
	Index     uint64 // of the entry that ordered it: names this drain
	Reason    string
	Principal string // who ordered it
	SinceWall int64  // ms since 1970, for display
	SinceTick int64  // cluster clock, ms
	// DeadlineTick is the cluster clock, in ms, from which on what is left is
	// ended; 0 = none.
	DeadlineTick int64
	// IdleOnly: what runs is left to end by itself, and is not replaced before.
	IdleOnly bool
}

// DrainTerms are what an order to drain says.
type DrainTerms struct {
	Reason string
	// DeadlineMilli is after how much cluster clock what is left is ended; 0 =
	// never.
	DeadlineMilli int64
	IdleOnly      bool // as Drain.IdleOnly
}

// Validate checks the terms; errors wrap ErrInvalid.
func (t DrainTerms) Validate() error {
	if t.DeadlineMilli < 0 || t.DeadlineMilli > MaxDrainMilli {
		return fmt.Errorf("%w: a deadline of %d ms: must be between 0 (none) and %d", ErrInvalid, t.DeadlineMilli, int64(MaxDrainMilli))
	}
	return nil
}

// Due reports whether the deadline has passed.
func (d *Drain) Due(tick int64) bool { return d.DeadlineTick > 0 && tick >= d.DeadlineTick }

// UpState is the state of a worker that answers: out of service or in it.
// holds says whether anything of ours runs there.
func (w *Worker) UpState(holds bool) WorkerState {
	switch {
	case w.Drain == nil:
		return WorkerAlive
	case holds:
		return WorkerDraining
	}
	return WorkerDrained
}

// Offer is what a worker brings: where it is reached and what it can hold.
type Offer struct {
	Hostname  string
	GRPCAddr  string // host:port that masters and clients dial
	SerfAddr  string // host:port of its gossip TCP listener
	HTTPAddr  string
	Cores     int
	MemoryMiB int64
	Resources Resources
	Labels    map[string]string
	Version   string
	// CoresTotal and MemoryTotalMiB are what the machine, or the narrowest
	// cgroup of the worker, has; 0 = not known.
	CoresTotal     int
	MemoryTotalMiB int64
}

// Clone returns a deep copy.
func (w *Worker) Clone() *Worker {
	c := *w
	c.Offer = w.Offer.Clone()
	return &c
}

// Clone returns a deep copy.
func (o Offer) Clone() Offer {
	o.Resources = o.Resources.Clone()
	o.Labels = maps.Clone(o.Labels)
	return o
}

// Usage is what the live executors on one worker hold together.
type Usage struct {
	Cores     int
	MemoryMiB int64
	Resources Resources
	Executors int
}

// Holds reports whether anything is in use.
func (u Usage) Holds() bool { return u.Executors > 0 || u.Cores > 0 }

// Clone returns a deep copy.
func (u Usage) Clone() Usage {
	u.Resources = u.Resources.Clone()
	return u
}

// Master is the replicated record of a master: where its services are. The
// set of voters is Raft's own configuration, not this table.
type Master struct {
	ID       MasterID
	GRPCAddr string
	RaftAddr string
	SerfAddr string
	HTTPAddr string
	Version  string
	// Key is the Ed25519 public key of its data directory, MasterKeyBytes long,
	// by which it proves that it is at an address; "" from before there was one.
	// Once known it stays.
	Key string
	// Removed: an operator has taken it out for good. The record stays, so
	// that a removed master that comes back is not added again (HA-16).
	Removed     bool
	ChangeIndex uint64
}

// MasterKeyBytes is the length of a Master.Key.
const MasterKeyBytes = 32

// Clone returns a copy.
func (m *Master) Clone() *Master { c := *m; return &c }
