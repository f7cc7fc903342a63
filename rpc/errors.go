package rpc

import (
	"errors"

	"github.com/hearthd/hearth/model"
)

// NotLeaderError is a model.ErrNotLeader that knows who leads.
type NotLeaderError struct {
	Leader string // gRPC address, "" = unknown
}

// Error names the leader if it is known.
func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return model.ErrNotLeader.Error() + ": no leader is known"
	}
	return model.ErrNotLeader.Error() + ": the leader is " + e.Leader
}

// Unwrap returns model.ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return model.ErrNotLeader }

// NotLeader returns a NotLeaderError with the leader's gRPC address.
func NotLeader(leader string) error { return &NotLeaderError{Leader: leader} }

// LeaderHint returns the leader's address that err carries, on either side of
// a call.
func LeaderHint(err error) (addr string, ok bool) {
	var e *NotLeaderError
	if errors.As(err, &e) && e.Leader != "" {
		return e.Leader, true
	}
	return "", false
}
