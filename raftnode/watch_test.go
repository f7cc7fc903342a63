package raftnode

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// brokenLog is a log store whose appends do what the test says.
type brokenLog struct {
	*raft.InmemStore
	store func() error
}

func (b brokenLog) StoreLogs([]*raft.Log) error { return b.store() }

// failures collects what a watch reports.
type failures struct {
	mu   sync.Mutex
	errs []string
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err.Error())
}

func (f *failures) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.errs, "\n")
}

func testWatch(leading func() bool, fail func(error)) *watch {
	return newWatch(Deps{}.withDefaults().Disk, leading, fail)
}

func leads(yes bool) func() bool { return func() bool { return yes } }

func TestAFailedWriteIsFatalUnlessTheDiskIsFull(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		fatal bool
	}{
		{"no failure", nil, false},
		{"a full disk", syscall.ENOSPC, false},
		{"a failed sync", syscall.EIO, true},
	} {
		var f failures
		l := watchedLog{brokenLog{raft.NewInmemStore(), func() error { return c.err }}, testWatch(leads(true), f.add)}
		if err := l.StoreLogs(nil); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want the store's own %v", c.name, err, c.err)
		}
		if got := f.all() != ""; got != c.fatal {
			t.Errorf("%s: fatal = %v, want %v (%s)", c.name, got, c.fatal, f.all())
		}
	}
}

// stallFor lets an append hang for a time while a watch looks on.
func stallFor(t *testing.T, w *watch, hang time.Duration, during func()) {
	t.Helper()
	done := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() { w.run(done) })
	l := watchedLog{brokenLog{raft.NewInmemStore(), func() error { time.Sleep(hang); return nil }}, w}
	tasks.Go(func() { _ = l.StoreLogs(nil) })
	during()
	time.Sleep(hang)
	close(done)
	tasks.Wait()
}

// HA-13: an append that never returns.
func TestALeaderWhoseStoreHangsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		stallFor(t, testWatch(leads(true), f.add), time.Minute, func() {
			time.Sleep(storeStallLimit - time.Second)
			if got := f.all(); got != "" {
				t.Errorf("before the limit: got %q, want nothing", got)
			}
			time.Sleep(4 * time.Second)
			if got := f.all(); !strings.Contains(got, "raft store stalled: the leader's call to append to the log") {
				t.Errorf("after the limit: got %q, want the stalled call", got)
			}
		})
	})
}

func TestAStandbyWhoseStoreHangsSaysSoUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		w := testWatch(leads(false), f.add)
		began := time.Now()
		stallFor(t, w, time.Minute, func() {
			time.Sleep(storeStallLimit - time.Second)
			if stall, ok := w.stalled(); ok {
				t.Errorf("before the limit: got %+v, want nothing", stall)
			}
			time.Sleep(4 * time.Second)
			stall, ok := w.stalled()
			if diff := cmp.Diff(Stall{What: "append to the log", Since: began}, stall); !ok || diff != "" {
				t.Errorf("after the limit (-want +got):\n%s", diff)
			}
			time.Sleep(time.Minute)
			if stall, ok := w.stalled(); ok {
				t.Errorf("after the call has returned: got %+v, want nothing", stall)
			}
		})
		if got := f.all(); got != "" {
			t.Errorf("the standby failed: %s", got)
		}
	})
}

// A truncation that hangs keeps no standby from being elected.
func TestAStandbyThatComesToLeadWithAHangingStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		var elected atomic.Bool
		stallFor(t, testWatch(elected.Load, f.add), time.Minute, func() {
			time.Sleep(30 * time.Second)
			elected.Store(true)
			time.Sleep(storeCheckInterval + time.Millisecond)
			if got := f.all(); !strings.Contains(got, "raft store stalled") {
				t.Errorf("a second after the election: got %q, want the stalled call", got)
			}
		})
	})
}

// The ticks that a stopped process has missed come as one.
func TestACallDuringWhichTheProcessStoodStillIsNoStalledOne(t *testing.T) {
	var f failures
	w := testWatch(leads(true), f.add)
	l := watchedLog{brokenLog{raft.NewInmemStore(), func() error {
		for range 2 { // before and after it stood still, however long that was
			w.check()
			if stall, ok := w.stalled(); ok {
				t.Errorf("%+v counts as stalled", stall)
			}
		}
		return nil
	}}, w}
	if err := l.StoreLogs(nil); err != nil {
		t.Fatal(err)
	}
	if n := len(w.pending); n != 0 {
		t.Errorf("%d calls are pending after the only one has returned", n)
	}
}

func TestAWrapperSaysWhatItsStoreSaysAboutGaps(t *testing.T) {
	if got := (watchedLog{raft.NewInmemStore(), nil}).IsMonotonic(); got {
		t.Error("a store that takes gaps: got monotonic")
	}
	if got := (watchedLog{boltLog{}, nil}).IsMonotonic(); !got {
		t.Error("boltdb: got not monotonic; it would keep a conflicting tail (ST-11)")
	}
}

func TestASlowReaderOfTermsSeesTheLatestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTermBook()
		done := make(chan struct{})
		go b.run(done)
		b.record(3, false) // never led: no news
		b.record(5, true)
		b.record(6, false) // lost by hearing of a later term
		b.record(8, true)
		b.record(8, true)
		synctest.Wait()
		var got []Term
		got = append(got, <-b.out)
		b.record(9, false)
		got = append(got, <-b.out)
		if diff := cmp.Diff([]Term{{8, true}, {8, false}}, got); diff != "" {
			t.Errorf("terms (-want +got):\n%s", diff)
		}
		close(done)
		if _, open := <-b.out; open {
			t.Error("the channel is open after the end")
		}
	})
}

func TestALeakedTransferFlagIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		var failed error
		check := &transferCheck{fail: func(err error) { failed = err; f.add(err) }}
		for range 20 {
			check.note(raft.ErrLeadershipTransferInProgress)
			time.Sleep(time.Second)
			if time.Now().Second()%4 == 0 {
				check.note(nil)
			}
		}
		check.note(nil)
		for range 1000 { // a process that stood still finds them all at once
			check.note(raft.ErrLeadershipTransferInProgress)
		}
		check.note(nil)
		if got := f.all(); got != "" {
			t.Errorf("with commands that pass in between: got %q, want nothing", got)
		}
		began := time.Now()
		for failed == nil && time.Since(began) < time.Minute {
			check.note(raft.ErrLeadershipTransferInProgress)
			time.Sleep(20 * time.Millisecond)
		}
		if took := time.Since(began); took < transferStuckLimit || took > transferStuckLimit+time.Second {
			t.Errorf("reported after %s, want %s", took, transferStuckLimit)
		}
		if !errors.Is(failed, ErrStuck) || !strings.Contains(f.all(), "leadership transfer") {
			t.Errorf("got %v, want what asks for a restart", failed)
		}
	})
}

func TestARepeatedComplaintIsWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, buf := newLog(t)
		log := newQuietLog(inner).Named("raft").With("node", "m1")
		for range 90 {
			log.Error("failed to heartbeat to", "peer", "m2", "error", time.Now())
			log.Error("failed to heartbeat to", "peer", "m3", "error", time.Now())
			log.Info("something else")
			time.Sleep(time.Second)
		}
		for want, n := range map[string]int{"peer=m2": 2, "peer=m3": 2, "omitted=59": 2, "something else": 90, "[ERROR]": 0} {
			if got := strings.Count(buf.String(), want); got != n {
				t.Errorf("lines with %q: got %d, want %d", want, got, n)
			}
		}
	})
}
