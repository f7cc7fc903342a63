package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
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

// errorRow ties a sentinel to its number on the wire and its status code.
type errorRow struct {
	sentinel error
	wire     pb.ErrorCode
	code     codes.Code
}

// errorTable is the one table of errors. The order decides which status code
// an error with several sentinels gets; what can only be said by one of them
// comes first.
func errorTable() []errorRow {
	return []errorRow{
		{model.ErrOutcomeUnknown, pb.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN, codes.Aborted},
		{model.ErrNotLeader, pb.ErrorCode_ERROR_CODE_NOT_LEADER, codes.FailedPrecondition},
		{model.ErrNoLeader, pb.ErrorCode_ERROR_CODE_NO_LEADER, codes.Unavailable},
		{model.ErrRequestExpired, pb.ErrorCode_ERROR_CODE_REQUEST_EXPIRED, codes.OutOfRange},
		{model.ErrUnauthenticated, pb.ErrorCode_ERROR_CODE_UNAUTHENTICATED, codes.Unauthenticated},
		{model.ErrForeignCluster, pb.ErrorCode_ERROR_CODE_FOREIGN_CLUSTER, codes.FailedPrecondition},
		{model.ErrStaleEpoch, pb.ErrorCode_ERROR_CODE_STALE_EPOCH, codes.FailedPrecondition},
		{model.ErrDeclaredDead, pb.ErrorCode_ERROR_CODE_DECLARED_DEAD, codes.FailedPrecondition},
		{model.ErrNotFound, pb.ErrorCode_ERROR_CODE_NOT_FOUND, codes.NotFound},
		{model.ErrEnded, pb.ErrorCode_ERROR_CODE_ENDED, codes.FailedPrecondition},
		{model.ErrInvalid, pb.ErrorCode_ERROR_CODE_INVALID, codes.InvalidArgument},
		{model.ErrTooLarge, pb.ErrorCode_ERROR_CODE_TOO_LARGE, codes.ResourceExhausted},
		{model.ErrConflict, pb.ErrorCode_ERROR_CODE_CONFLICT, codes.FailedPrecondition},
		{model.ErrRefused, pb.ErrorCode_ERROR_CODE_REFUSED, codes.PermissionDenied},
		{model.ErrUnavailable, pb.ErrorCode_ERROR_CODE_UNAVAILABLE, codes.Unavailable},
	}
}

// transportSentinel says what a status means that carries no detail of ours:
// gRPC made it itself.
func transportSentinel(c codes.Code) error {
	switch c { //nolint:exhaustive // the rest has no counterpart
	case codes.Unavailable:
		return model.ErrUnavailable
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	case codes.ResourceExhausted:
		return model.ErrTooLarge
	case codes.Unauthenticated:
		return model.ErrUnauthenticated
	case codes.PermissionDenied:
		return model.ErrRefused
	case codes.InvalidArgument, codes.Unimplemented:
		return model.ErrInvalid
	}
	return nil
}

// RemoteError is an error that came over the wire. It matches the sentinels of
// package model, *model.RejectedError and *NotLeaderError as the original did.
type RemoteError struct {
	text     string
	wraps    []error
	code     codes.Code
	answered bool
}

// Error is the text of the original error.
func (e *RemoteError) Error() string { return e.text }

// Unwrap returns what the original matched.
func (e *RemoteError) Unwrap() []error { return e.wraps }

// Answered reports whether err is the word of the far side's service, not a
// failure on the way.
func Answered(err error) bool {
	var e *RemoteError
	return errors.As(err, &e) && e.answered
}

// toStatus turns a service's error into a status that the far side reads with
// fromStatus. A status is passed on as it is.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code, text, detail := describe(err)
	st, serr := status.New(code, text).WithDetails(detail)
	if serr != nil { // the detail could not be encoded; its strings are valid
		return status.Error(codes.Internal, text)
	}
	return st.Err()
}

// describe puts an error into what travels.
func describe(err error) (codes.Code, string, *pb.ErrorDetail) {
	detail := &pb.ErrorDetail{}
	code := codes.Unknown
	for _, row := range errorTable() {
		if !errors.Is(err, row.sentinel) {
			continue
		}
		if len(detail.Codes) == 0 {
			code = row.code
		}
		detail.Codes = append(detail.Codes, row.wire)
	}
	if len(detail.Codes) == 0 {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			code = codes.DeadlineExceeded
		case errors.Is(err, context.Canceled):
			code = codes.Canceled
		}
	}
	var rejected *model.RejectedError
	if errors.As(err, &rejected) {
		detail.Rejection = validText(string(rejected.Reason))
		detail.RejectionText = validText(model.TrimReason(rejected.Text))
	}
	detail.LeaderAddr, _ = LeaderHint(err)
	detail.LeaderAddr = validText(detail.LeaderAddr)
	text := validText(err.Error())
	if len(text) > MaxErrorBytes {
		text = validText(text[:MaxErrorBytes]) + "…"
	}
	return code, text, detail
}

// errorFromDetail is the error that describe was given, as fromStatus makes it.
func errorFromDetail(text string, detail *pb.ErrorDetail) error {
	return &RemoteError{text: text, wraps: wrapsOf(detail), answered: true}
}

// fromStatus turns what a call returned into an error that matches what the
// service had returned.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	out := &RemoteError{text: st.Message(), code: st.Code()}
	for _, d := range st.Details() {
		if detail, ok := d.(*pb.ErrorDetail); ok {
			out.answered = true
			out.wraps = append(out.wraps, wrapsOf(detail)...)
			if len(detail.GetCodes()) == 0 {
				out.wraps = append(out.wraps, contextSentinel(st.Code())...)
			}
			return out
		}
	}
	if s := transportSentinel(st.Code()); s != nil {
		out.wraps = []error{s}
	}
	if out.text == "" {
		out.text = st.Code().String()
	}
	return out
}

func contextSentinel(c codes.Code) []error {
	switch c { //nolint:exhaustive // only these two are made from contexts
	case codes.DeadlineExceeded:
		return []error{context.DeadlineExceeded}
	case codes.Canceled:
		return []error{context.Canceled}
	}
	return nil
}

func wrapsOf(detail *pb.ErrorDetail) []error {
	var out []error
	if detail.GetRejection() != "" {
		out = append(out, &model.RejectedError{
			Reason: model.Rejection(detail.GetRejection()), Text: detail.GetRejectionText(),
		})
	}
	for _, c := range detail.GetCodes() {
		for _, row := range errorTable() {
			if row.wire != c {
				continue
			}
			if c == pb.ErrorCode_ERROR_CODE_NOT_LEADER {
				out = append(out, &NotLeaderError{Leader: detail.GetLeaderAddr()})
				continue
			}
			out = append(out, row.sentinel)
		}
	}
	return out
}

// outcomeError is fromStatus for a call that changes something: whatever broke
// after the request was sent leaves its outcome unknown.
func outcomeError(err error, sent bool) error {
	err = fromStatus(err)
	if err == nil || !sent || Answered(err) {
		return err
	}
	var re *RemoteError
	if errors.As(err, &re) {
		switch re.code { //nolint:exhaustive // the rest may have been done
		case codes.ResourceExhausted, codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument:
			return err // refused before the service saw it
		}
	}
	return fmt.Errorf("%w: %w", model.ErrOutcomeUnknown, err)
}
