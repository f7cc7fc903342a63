package model

import "errors"

// Sentinels. Each is defined once here, wrapped with %w where it happens and
// matched with errors.Is on the far side of any call; package rpc maps them to
// status codes and back.
var (
	ErrNotLeader       = errors.New("not the leader")
	ErrNoLeader        = errors.New("no leader")
	ErrOutcomeUnknown  = errors.New("outcome unknown")
	ErrRequestExpired  = errors.New("request expired")
	ErrNotFound        = errors.New("not found")
	ErrInvalid         = errors.New("invalid")
	ErrRefused         = errors.New("refused")
	ErrConflict        = errors.New("conflict")
	ErrTooLarge        = errors.New("too large")
	ErrUnavailable     = errors.New("unavailable")
	ErrForeignCluster  = errors.New("other cluster")
	ErrStaleEpoch      = errors.New("other recovery epoch")
	ErrDeclaredDead    = errors.New("declared dead")
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrEnded           = errors.New("has ended")
)

// Rejection is the closed list of reasons for which the FSM refuses a command
// or one of its parts. A rejected command changes nothing.
type Rejection string

// Rejections.
const (
	RejectNone            Rejection = ""
	RejectInvalid         Rejection = "INVALID"
	RejectRequestExpired  Rejection = "REQUEST_EXPIRED"
	RejectUnknownApp      Rejection = "UNKNOWN_APP"
	RejectAppEnded        Rejection = "APP_ENDED"
	RejectBadToken        Rejection = "BAD_TOKEN"
	RejectUnknownWorker   Rejection = "UNKNOWN_WORKER"
	RejectWorkerNotAlive  Rejection = "WORKER_NOT_ALIVE"
	RejectIncarnation     Rejection = "STALE_INCARNATION"
	RejectEvidence        Rejection = "STALE_EVIDENCE"
	RejectUnknownExecutor Rejection = "UNKNOWN_EXECUTOR"
	RejectDoesNotFit      Rejection = "DOES_NOT_FIT"
	RejectOverTarget      Rejection = "OVER_TARGET"
	RejectOverCores       Rejection = "OVER_CORES_MAX"
	RejectBlocked         Rejection = "BLOCKED"
	RejectTransition      Rejection = "ILLEGAL_TRANSITION"
	RejectUnknownSetting  Rejection = "UNKNOWN_SETTING"
	RejectInitialised     Rejection = "ALREADY_INITIALISED"
	RejectUnknownMaster   Rejection = "UNKNOWN_MASTER"
	RejectMasterRemoved   Rejection = "MASTER_REMOVED"
	RejectNotOwner        Rejection = "NOT_OWNER"
	RejectCertificate     Rejection = "OTHER_CERTIFICATE"
	RejectUnknownToken    Rejection = "UNKNOWN_TOKEN"
	RejectTokenExists     Rejection = "TOKEN_EXISTS"
	RejectTooMany         Rejection = "TOO_MANY"
	RejectUnknownDriver   Rejection = "UNKNOWN_DRIVER"
	RejectDriverEnded     Rejection = "DRIVER_ENDED"
	RejectAttempt         Rejection = "STALE_ATTEMPT"
	RejectGang            Rejection = "GANG"
)

// Rejections lists them all, RejectNone excluded.
func Rejections() []Rejection {
	return []Rejection{
		RejectInvalid, RejectRequestExpired, RejectUnknownApp, RejectAppEnded, RejectBadToken,
		RejectUnknownWorker, RejectWorkerNotAlive, RejectIncarnation, RejectEvidence,
		RejectUnknownExecutor, RejectDoesNotFit, RejectOverTarget, RejectOverCores, RejectBlocked,
		RejectTransition, RejectUnknownSetting, RejectInitialised, RejectUnknownMaster,
		RejectMasterRemoved, RejectNotOwner, RejectCertificate, RejectUnknownToken, RejectTokenExists,
		RejectTooMany, RejectUnknownDriver, RejectDriverEnded, RejectAttempt, RejectGang,
	}
}

// Err returns nil for RejectNone, else an error that wraps the sentinel which
// fits and carries the reason and the text.
func (r Rejection) Err(text string) error {
	if r == RejectNone {
		return nil
	}
	return &RejectedError{Reason: r, Text: text}
}

// RejectedError is a refusal by the FSM.
type RejectedError struct {
	Reason Rejection
	Text   string
}

// Error renders the reason and the text.
func (e *RejectedError) Error() string {
	if e.Text == "" {
		return string(e.Reason)
	}
	return e.Text + " (" + string(e.Reason) + ")"
}

// Unwrap returns the sentinel that fits the reason.
func (e *RejectedError) Unwrap() error {
	switch e.Reason {
	case RejectInvalid, RejectUnknownSetting:
		return ErrInvalid
	case RejectRequestExpired:
		return ErrRequestExpired
	case RejectUnknownApp, RejectUnknownWorker, RejectUnknownExecutor, RejectUnknownMaster, RejectUnknownToken, RejectUnknownDriver:
		return ErrNotFound
	case RejectAppEnded, RejectDriverEnded:
		return ErrEnded
	case RejectBadToken:
		return ErrUnauthenticated
	case RejectWorkerNotAlive, RejectIncarnation, RejectEvidence, RejectDoesNotFit,
		RejectOverTarget, RejectOverCores, RejectBlocked, RejectTransition, RejectInitialised, RejectTokenExists, RejectAttempt, RejectGang:
		return ErrConflict
	case RejectTooMany:
		return ErrTooLarge
	case RejectNone, RejectMasterRemoved, RejectNotOwner, RejectCertificate:
	}
	return ErrRefused
}
