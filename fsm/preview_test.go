package fsm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestAPreviewSaysWhatWillBeAndChangesNothing(t *testing.T) {
	f := New(CheckInvariants())
	before := f.View()
	cmd := &replogv1.Command{RequestId: "r-1", Kind: &replogv1.Command_RegisterApp{RegisterApp: &replogv1.RegisterApp{
		Token: "token", Spec: SpecToProto(model.AppSpec{
			Name: "app", Kind: model.AppKindCommand, Executors: 1, Completions: 1, Restart: model.RestartNever,
			Profile: model.Profile{Cores: 1, MemoryMiB: 1}, Command: model.Command{Argv: []string{"true"}},
		}),
	}}}
	foreseen, after := f.Preview([]*replogv1.Command{cmd})
	if foreseen[0].Rejection != model.RejectNone {
		t.Fatalf("refused: %s", foreseen[0].Text)
	}
	if f.View().Hash() != before.Hash() || f.View().Index() != before.Index() {
		t.Error("a preview has changed the state")
	}
	entry, err := EncodeBatch([]*replogv1.Command{cmd})
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Apply(before.Index()+1, entry)
	if err != nil {
		t.Fatal(err)
	}
	if out.Results[0].App != foreseen[0].App {
		t.Errorf("foreseen %s, got %s", foreseen[0].App, out.Results[0].App)
	}
	want, got := dump(after), dump(f.View())
	delete(want, "hash") // a preview makes none
	delete(got, "hash")
	if diff := cmp.Diff(want, got, protocmp.Transform(), cmp.Comparer(sameUsage)); diff != "" {
		t.Errorf("what was foreseen and what is (-want +got):\n%s", diff)
	}
	for request, want := range map[string]model.Rejection{"r-2": model.RejectUnknownApp, "r-1": model.RejectUnknownWorker} {
		res, _ := f.Preview([]*replogv1.Command{{Kind: &replogv1.Command_PlaceExecutors{PlaceExecutors: &replogv1.PlaceExecutors{
			RegisteredBy: request, Placements: []*replogv1.Placement{{App: string(foreseen[0].App), Worker: "w", Cores: 1, MemoryMib: 1, Secret: "s"}},
		}}}})
		if got := res[0].Placements[0].Rejection; got != want {
			t.Errorf("a placement that was planned for the application of %s: got %q, want %q", request, got, want)
		}
	}
}
