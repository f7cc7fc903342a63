//go:build linux

package keeper

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestExitsOfOneMomentShareASyncOfTheirDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("the second one")
		calls, release := 0, make(chan struct{})
		d := &dirSync{call: func() error {
			calls++ // one at a time
			<-release
			if calls == 2 {
				return failed
			}
			return nil
		}}
		var first, rest sync.WaitGroup
		first.Go(func() {
			if err := d.sync(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 100 { // none of them is covered by the sync that has begun
			rest.Go(func() {
				if err := d.sync(); !errors.Is(err, failed) {
					t.Errorf("got %v, want what became of the sync that began later", err)
				}
			})
		}
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d syncs at the same time", calls)
		}
		release <- struct{}{}
		synctest.Wait()
		release <- struct{}{}
		first.Wait()
		rest.Wait()
		if calls != 2 {
			t.Errorf("101 exits took %d syncs of the directory, want 2", calls)
		}
		go func() { release <- struct{}{} }()
		if err := d.sync(); err != nil || calls != 3 {
			t.Errorf("later: %v after %d syncs", err, calls)
		}
	})
}
