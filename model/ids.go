package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// MasterID names a master. It is generated once and kept in the master's data
// directory, so a master that returns on another address is the same member.
type MasterID string

// WorkerID names a worker; generated once and kept in its data directory.
type WorkerID string

// AppID names an application: "app-20261130061500-0003". The last part is a
// counter held in the replicated state and never reused.
type AppID string

// ExecutorID counts the executors of one application from 0; never reused.
type ExecutorID int

// ExecutorRef names one process of the cluster: an executor of an application,
// or an attempt of a driver, whose id stands in App then (ADR 0035).
type ExecutorRef struct {
	App      AppID
	Executor ExecutorID
}

// String renders the reference as "app-…/3".
func (r ExecutorRef) String() string {
	return string(r.App) + "/" + strconv.Itoa(int(r.Executor))
}

// Compare orders references by application number, then executor id.
func (r ExecutorRef) Compare(o ExecutorRef) int {
	an, _ := r.App.Number()
	bn, _ := o.App.Number()
	return cmp.Or(cmp.Compare(an, bn), cmp.Compare(r.App, o.App), cmp.Compare(r.Executor, o.Executor))
}

// ParseExecutorRef reads "app-…/N" or "driver-…/N".
func ParseExecutorRef(s string) (ExecutorRef, error) {
	app, num, ok := strings.Cut(s, "/")
	if !ok {
		return ExecutorRef{}, fmt.Errorf("executor id %q: want app-…/N", s)
	}
	if _, err := AppID(app).Number(); err != nil {
		return ExecutorRef{}, fmt.Errorf("executor id %q: %w", s, err)
	}
	n, err := strconv.Atoi(num)
	if err != nil || n < 0 {
		return ExecutorRef{}, fmt.Errorf("executor id %q: the part after / must be a number from 0", s)
	}
	return ExecutorRef{App: AppID(app), Executor: ExecutorID(n)}, nil
}

// AppIDFor builds the id of the application with this number. wallMilli is
// the proposer's wall clock in ms since 1970; it is shown in UTC.
func AppIDFor(wallMilli int64, number uint64) AppID {
	return AppID(fmt.Sprintf("app-%s-%04d", CompactUTC(wallMilli), number))
}

// Number returns the counter part of the id, which may be that of a driver.
func (a AppID) Number() (uint64, error) {
	kind, rest, _ := strings.Cut(string(a), "-") // without memory: it is asked all the time
	stamp, number, ok := strings.Cut(rest, "-")
	if !ok || (kind != "app" && kind != driverPrefix) || len(stamp) != 14 || strings.Contains(number, "-") {
		return 0, fmt.Errorf("application id %q: want app-YYYYMMDDhhmmss-N", string(a))
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("application id %q: %q is not a number", string(a), number)
	}
	return n, nil
}

// ClusterIdentity says which cluster a node belongs to: a random id made at
// bootstrap, and the recovery epoch as (number, random id). A lower number, or
// the same number with another id, is refused in every handshake.
type ClusterIdentity struct {
	ID      string
	Epoch   uint64
	EpochID uint64
}

// IsZero reports whether the node has not joined any cluster yet.
func (c ClusterIdentity) IsZero() bool { return c.ID == "" }

// String renders "id (epoch n)".
func (c ClusterIdentity) String() string {
	if c.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s (epoch %d)", c.ID, c.Epoch)
}

// Accepts reports whether a peer that claims other may talk to c: nil if so,
// else ErrForeignCluster or ErrStaleEpoch with both identities named. A zero
// identity on either side is accepted: that node has yet to join.
func (c ClusterIdentity) Accepts(other ClusterIdentity) error {
	switch {
	case c.IsZero() || other.IsZero():
		return nil
	case c.ID != other.ID:
		return fmt.Errorf("%w: this node belongs to %s, the peer to %s", ErrForeignCluster, c, other)
	case other.Epoch < c.Epoch:
		return fmt.Errorf("%w: this node is in epoch %d, the peer in %d", ErrStaleEpoch, c.Epoch, other.Epoch)
	case other.Epoch == c.Epoch && other.EpochID != c.EpochID:
		return fmt.Errorf("%w: both claim epoch %d with different ids (%x here, %x there)", ErrStaleEpoch, c.Epoch, c.EpochID, other.EpochID)
	}
	return nil
}
