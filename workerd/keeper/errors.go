//go:build linux

package keeper

import "errors"

// Reason is the closed list of causes a request is refused for.
type Reason string

// Reasons. The first group means that the process could not be started for a cause of the app's,
// the second is about the request, the third about the keeper.
const (
	ReasonCommandNotFound Reason = "command-not-found"
	ReasonNotExecutable   Reason = "not-executable"
	ReasonBadDirectory    Reason = "bad-directory"
	ReasonOutputFailed    Reason = "output-failed"
	ReasonSpawnFailed     Reason = "spawn-failed"

	ReasonInvalid      Reason = "invalid-request"
	ReasonDuplicateKey Reason = "duplicate-key"
	ReasonUnknownKey   Reason = "unknown-key"
	ReasonStillRunning Reason = "still-running"
	ReasonNotRunning   Reason = "not-running"

	ReasonTooMany      Reason = "too-many"
	ReasonShuttingDown Reason = "shutting-down"
	ReasonVersion      Reason = "version"
	ReasonWrongWorker  Reason = "wrong-worker"
	ReasonLeaseOver    Reason = "lease-over"
)

// Error is a refusal by the keeper. It crosses the socket unchanged.
type Error struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"`
}

// Error returns reason and detail in one line.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Detail }

// ReasonOf returns the reason of the refusal in err's chain, "" if there is none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// ErrDisconnected is returned by the calls of a Client whose connection is closed. Whether the
// request was carried out is then unknown.
var ErrDisconnected = errors.New("keeper connection closed")

// ErrNoAgent is returned by Server.Run when it ended because no agent held on to it: the agent went
// without a Keep, its Keep ran out, or none ever came.
var ErrNoAgent = errors.New("no agent")
