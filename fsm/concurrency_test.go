package fsm

import (
	"io"
	"sync"
	"testing"

	"github.com/hearthd/hearth/model"
)

// TestViewsAreReadWhileEntriesApply lets readers and a snapshot writer work
// beside the one that applies; the race detector and the invariants of each
// view say whether anything shared was changed.
func TestViewsAreReadWhileEntriesApply(t *testing.T) {
	t.Parallel()
	w := furnished(t).after(model.BackoffMaxMilli)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := w.v()
				if err := v.CheckInvariants(); err != nil {
					t.Error(err)
					return
				}
				dump(v)
				if _, err := v.Snapshot().WriteTo(io.Discard); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		id := w.placed(sampleApp, "w1", 1)
		w.report1("w1", says(sampleApp, id, model.ExecutorLaunching))
		w.must(killExecs(sampleApp, int32(id)))
		w.after(1).report1("w1", ended(sampleApp, id, model.ExecutorKilled, model.CauseKill, -1, 15))
	}
	close(done)
	wg.Wait()
}
