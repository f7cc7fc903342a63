package raftnode

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// A field of the envelope that is not copied would be lost between the caller
// and the log, and with it, for instance, who asked.
func TestEveryFieldOfTheEnvelopeIsCopied(t *testing.T) {
	t.Parallel()
	cmd := &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: "m"}}}
	m := cmd.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil {
			continue
		}
		switch f.Kind() {
		case protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(7))
		case protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(7))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		default:
			t.Fatalf("field %s is of a kind that this test does not fill: teach it", f.Name())
		}
	}
	got := shallowCopy(cmd)
	if !proto.Equal(got, cmd) {
		t.Errorf("copied %v, got %v", cmd, got)
	}
	got.Proposer = "y"
	if cmd.GetProposer() != "x" {
		t.Error("the copy shares its envelope")
	}
}
