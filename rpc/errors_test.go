package rpc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/model"
)

// acrossWire is what the far side sees of err.
func acrossWire(err error) error {
	st, _ := status.FromError(toStatus(err))
	return fromStatus(status.FromProto(st.Proto()).Err())
}

func TestEverySentinelIsMatchedOnTheFarSideAndNoOtherIs(t *testing.T) {
	t.Parallel()
	for _, row := range errorTable() {
		err := fmt.Errorf("launch app-1: %w", row.sentinel)
		got := acrossWire(err)
		if got.Error() != err.Error() {
			t.Errorf("text %q became %q", err, got)
		}
		if !Answered(got) {
			t.Errorf("%v: not marked as the service's answer", row.sentinel)
		}
		if st, _ := status.FromError(toStatus(err)); st.Code() != row.code {
			t.Errorf("%v: code %v, want %v", row.sentinel, st.Code(), row.code)
		}
		for _, other := range errorTable() {
			if is, want := errors.Is(got, other.sentinel), other.wire == row.wire; is != want {
				t.Errorf("errors.Is(%v over the wire, %v) = %t, want %t", row.sentinel, other.sentinel, is, want)
			}
		}
	}
}

func TestTheTableHoldsEverySentinelOfTheModel(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "../model/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		if v, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			n++
		}
		return true
	})
	if got := len(errorTable()); got != n {
		t.Fatalf("the error table has %d rows, package model has %d sentinels", got, n)
	}
}

func TestRejectionsKeepReasonTextAndSentinel(t *testing.T) {
	t.Parallel()
	for _, r := range model.Rejections() {
		err := fmt.Errorf("place: %w", r.Err("because of \"x\""))
		got := acrossWire(err)
		var rej *model.RejectedError
		if !errors.As(got, &rej) || rej.Reason != r || rej.Text != "because of \"x\"" {
			t.Errorf("%s arrived as %#v", r, rej)
		}
		if want := errors.Unwrap(r.Err("")); !errors.Is(got, want) {
			t.Errorf("%s does not match %v on the far side", r, want)
		}
	}
}

func TestTheLeaderHintTravels(t *testing.T) {
	t.Parallel()
	got := acrossWire(fmt.Errorf("register: %w", NotLeader("m2:7070")))
	if addr, ok := LeaderHint(got); !ok || addr != "m2:7070" || !errors.Is(got, model.ErrNotLeader) {
		t.Fatalf("hint %q, %t of %v", addr, ok, got)
	}
	if addr, ok := LeaderHint(acrossWire(NotLeader(""))); ok {
		t.Fatalf("a hint %q came from nowhere", addr)
	}
}

func TestSeveralSentinelsOfOneErrorAllTravel(t *testing.T) {
	t.Parallel()
	got := acrossWire(errors.Join(model.ErrInvalid, model.ErrTooLarge))
	if !errors.Is(got, model.ErrInvalid) || !errors.Is(got, model.ErrTooLarge) {
		t.Fatalf("got %v", got)
	}
}

func TestContextErrorsAndPlainErrorsTravel(t *testing.T) {
	t.Parallel()
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := acrossWire(fmt.Errorf("wait: %w", want)); !errors.Is(got, want) {
			t.Errorf("%v arrived as %v", want, got)
		}
	}
	got := acrossWire(errors.New("disk on fire"))
	if got.Error() != "disk on fire" || !Answered(got) || errors.Is(got, model.ErrUnavailable) {
		t.Errorf("a plain error arrived as %v", got)
	}
	if toStatus(nil) != nil || fromStatus(nil) != nil {
		t.Error("nil is not nil")
	}
}

func TestAnErrorOfGRPCItselfIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	got := fromStatus(status.Error(codes.Unavailable, "connection refused"))
	if Answered(got) || !errors.Is(got, model.ErrUnavailable) {
		t.Fatalf("got %v", got)
	}
	if err := outcomeError(status.Error(codes.Unavailable, "broken"), true); !errors.Is(err, model.ErrOutcomeUnknown) || !errors.Is(err, model.ErrUnavailable) {
		t.Fatalf("a change that was sent and broke: %v", err)
	}
	if err := outcomeError(status.Error(codes.Unavailable, "refused"), false); errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("a change that was not sent: %v", err)
	}
}

func TestALongOrBrokenTextIsCutNotLost(t *testing.T) {
	t.Parallel()
	got := acrossWire(fmt.Errorf("%w: %s", model.ErrInvalid, strings.Repeat("ü\xff", MaxErrorBytes)))
	if len(got.Error()) > MaxErrorBytes+8 || !errors.Is(got, model.ErrInvalid) {
		t.Fatalf("%d bytes, %v", len(got.Error()), errors.Is(got, model.ErrInvalid))
	}
}
