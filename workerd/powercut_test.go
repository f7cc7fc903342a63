//go:build linux

package workerd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/recordlog"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// A power cut may take the last records of journal and keeper, wherever they end. What is left must
// start nothing, whatever the keeper still knows; orders of before are those of another incarnation.
func TestAPowerCutWhateverRecordsItTakesStartsNothingTwice(t *testing.T) {
	whole := encodeAll(t, sampleRecords())
	exit := keeper.Exit{Code: 0, Time: time.Unix(1, 0).UTC()}
	exits := [][]keeper.Entry{nil, {{Key: ref(1).String(), State: keeper.StateExited, Exit: &exit}}}
	for cut := len(journalHeader); cut <= len(whole); cut++ {
		path := filepath.Join(t.TempDir(), "journal")
		// The length may have reached the disk without the content.
		if err := os.WriteFile(path, append(append([]byte{}, whole[:cut]...), make([]byte, cut%3)...), 0o600); err != nil {
			t.Fatal(err)
		}
		opened := reopen(t, path)
		if _, err := os.Stat(path + recordlog.DamagedSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("cut at %d: taken for damage: %s", cut, opened.note)
		}
		for _, known := range exits {
			rep := newReports(2)
			tab := newTable(discardLogger(), opened.journal, rep)
			tab.restore(opened.records)
			for _, e := range tab.attach(known, time.Unix(2, 0)) {
				if e.kind == effectStart {
					t.Fatalf("cut at %d: %v is started again", cut, e.ref)
				}
			}
			if n := tab.live(); n != 0 {
				t.Fatalf("cut at %d: %d executors live on without a process", cut, n)
			}
			for _, r := range tab.inventory() {
				if !r.State.Terminal() {
					t.Fatalf("cut at %d: %v is told as %s", cut, r.Ref, r.State)
				}
			}
		}
	}

	f := testFence(t, filepath.Join(t.TempDir(), "fence"))
	f.session(2)
	order := model.Fence{Cluster: model.ClusterIdentity{ID: "c", EpochID: 1}, Term: 1, Incarnation: 1, ViewIndex: 1}
	if err := f.obey(order); !errors.Is(err, errIncarnation) {
		t.Errorf("an order from before the power cut: %v, want it refused", err)
	}
}
