package fsm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
)

// fill sets every field of a message to a value of its own, so that a field
// that a conversion forgets is seen.
func fill(m protoreflect.Message, n *int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range 2 {
				if fd.Message() != nil {
					fill(list.AppendMutable().Message(), n)
				} else {
					list.Append(scalar(fd, n))
				}
			}
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), n)
		default:
			m.Set(fd, scalar(fd, n))
		}
	}
}

func scalar(fd protoreflect.FieldDescriptor, n *int) protoreflect.Value {
	*n++
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(*n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(*n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(*n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(*n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(*n)})
	default:
		return protoreflect.ValueOfString("text-" + string(rune('A'+*n/26%26)) + string(rune('a'+*n%26)))
	}
}

func filled[M proto.Message](m M) M {
	n := 0
	fill(m.ProtoReflect(), &n)
	return m
}

func TestConversionsLoseNothing(t *testing.T) {
	t.Parallel()
	app := filled(&replogv1.App{})
	app.Finished = nil // records of their own
	for _, tc := range []struct {
		name      string
		want, got proto.Message
	}{
		{"cluster", filled(&replogv1.ClusterIdentity{}), ClusterToProto(ClusterFromProto(filled(&replogv1.ClusterIdentity{})))},
		{"settings", filled(&replogv1.Settings{}), SettingsToProto(SettingsFromProto(filled(&replogv1.Settings{})))},
		{"offer", filled(&replogv1.Offer{}), OfferToProto(OfferFromProto(filled(&replogv1.Offer{})))},
		{"master", filled(&replogv1.Master{}), MasterToProto(MasterFromProto(filled(&replogv1.Master{})))},
		{"worker", filled(&replogv1.Worker{}), workerToProto(workerFromProto(filled(&replogv1.Worker{})))},
		{"profile", filled(&replogv1.Profile{}), ProfileToProto(ProfileFromProto(filled(&replogv1.Profile{})))},
		{"specification", filled(&replogv1.AppSpec{}), SpecToProto(SpecFromProto(filled(&replogv1.AppSpec{})))},
		{"application", app, appToProto(appFromProto(app))},
		{"executor", filled(&replogv1.Executor{}), executorToProto(executorFromProto(filled(&replogv1.Executor{})))},
		{"placement", filled(&replogv1.Placement{}), PlacementToProto(PlacementFromProto(filled(&replogv1.Placement{})))},
		{"report", filled(&replogv1.ExecutorReport{}), ReportToProto(ReportFromProto(filled(&replogv1.ExecutorReport{})))},
		{"audit line", filled(&replogv1.AuditLine{}), auditToProto(auditFromProto(filled(&replogv1.AuditLine{})))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.got, protocmp.Transform(), sortedLists()); diff != "" {
				t.Errorf("there and back (-want +got):\n%s", diff)
			}
		})
	}
}

// sortedLists ignores the order of lists that stand for maps.
func sortedLists() cmp.Option {
	return cmp.Options{
		protocmp.SortRepeated(func(a, b *replogv1.ResourceAddresses) bool { return a.GetName() < b.GetName() }),
		protocmp.SortRepeated(func(a, b *replogv1.ResourceAmount) bool { return a.GetName() < b.GetName() }),
		protocmp.SortRepeated(func(a, b *replogv1.Label) bool { return a.GetName() < b.GetName() }),
		protocmp.SortRepeated(func(a, b *replogv1.CauseCount) bool { return a.GetCause() < b.GetCause() }),
	}
}

func TestEqualRecordsHaveEqualBytes(t *testing.T) {
	t.Parallel()
	r := model.Resources{"a": {"1"}, "b": {"2"}, "c": {"3"}, "d": {"4"}}
	want := new(hasher).executor(&model.Executor{Resources: r})
	for range 50 {
		if got := new(hasher).executor(&model.Executor{Resources: r.Clone()}); got != want {
			t.Fatal("equal records have different hashes")
		}
	}
}

func TestReasonsBecomeValidText(t *testing.T) {
	t.Parallel()
	p := ReportToProto(model.ExecutorReport{Reason: "out of \xff memory"})
	if _, err := proto.Marshal(p); err != nil {
		t.Errorf("a report with broken text cannot be sent: %v", err)
	}
}
