package archtest

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryListenerHasAFuzzTarget(t *testing.T) {
	// simnet only pretends to listen, unixsocket does it for those who call it, and a probe of bench takes its own connection only.
	got, err := CheckListeners(root, Listeners(), []string{"internal/simnet", "internal/unixsocket", "bench"})
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range got {
		t.Error(violation)
	}
}

func TestAListenerWithoutAFuzzTargetIsFound(t *testing.T) {
	got, err := CheckListeners(filepath.Join("testdata", "listeners"), []Listener{
		{"known", "known", []string{"known.FuzzKnown", "known.FuzzGone"}},
		{"closed", "closed", nil},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"closed: no fuzz target: every listener needs one",
		"closed: package closed opens no listener any more: mend Listeners()",
		"known: fuzz target known.FuzzGone does not exist",
		filepath.Join("testdata", "listeners", "stray", "stray.go") + ":6:44: package stray opens a listener that is not in Listeners(): add it with a fuzz target",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
