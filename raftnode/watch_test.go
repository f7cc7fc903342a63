package raftnode

import (
	"errors"
	"strings"
	"sync"
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
		l := watchedLog{brokenLog{raft.NewInmemStore(), func() error { return c.err }}, newWatch(f.add)}
		if err := l.StoreLogs(nil); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want the store's own %v", c.name, err, c.err)
		}
		if got := f.all() != ""; got != c.fatal {
			t.Errorf("%s: fatal = %v, want %v (%s)", c.name, got, c.fatal, f.all())
		}
	}
}

// HA-13: an append that never returns.
func TestAStoreThatHangsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		w := newWatch(f.add)
		done, hang := make(chan struct{}), make(chan struct{})
		var tasks sync.WaitGroup
		tasks.Go(func() { w.run(done) })
		l := watchedLog{brokenLog{raft.NewInmemStore(), func() error { <-hang; return nil }}, w}
		tasks.Go(func() { _ = l.StoreLogs(nil) })
		time.Sleep(storeStallLimit - time.Second)
		if got := f.all(); got != "" {
			t.Errorf("before the limit: got %q, want nothing", got)
		}
		time.Sleep(4 * time.Second)
		if got := f.all(); !strings.Contains(got, "raft store stalled: append to the log") {
			t.Errorf("after the limit: got %q, want the stalled call", got)
		}
		close(hang)
		close(done)
		tasks.Wait()
	})
}

// The ticks that a stopped process has missed come as one.
func TestACallDuringWhichTheProcessStoodStillIsNoStalledOne(t *testing.T) {
	var f failures
	w := newWatch(f.add)
	l := watchedLog{brokenLog{raft.NewInmemStore(), func() error {
		for range 2 { // before and after it stood still, however long that was
			if what, seen := w.check(); seen > storeStallChecks {
				t.Errorf("%q was seen %d times", what, seen)
			}
		}
		return nil
	}}, w}
	if err := l.StoreLogs(nil); err != nil {
		t.Fatal(err)
	}
	if _, seen := w.check(); seen != 0 {
		t.Errorf("a call that has returned was seen %d times", seen)
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
		check := &transferCheck{fail: f.add}
		for range 20 {
			check.note(raft.ErrLeadershipTransferInProgress)
			time.Sleep(time.Second)
			if time.Now().Second()%5 == 0 {
				check.note(nil)
			}
		}
		if got := f.all(); got != "" {
			t.Errorf("with commands that pass in between: got %q, want nothing", got)
		}
		for range 12 {
			check.note(raft.ErrLeadershipTransferInProgress)
			time.Sleep(time.Second)
		}
		if got := f.all(); !strings.Contains(got, "leadership transfer") {
			t.Errorf("refused for 12 s: got %q, want a report", got)
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
