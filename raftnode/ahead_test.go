package raftnode

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// onDisk answers for a log whose entries are written at once.
func onDisk(uint64, bool, <-chan struct{}) bool { return true }

// disk is a log store whose writes can be held up or refused.
type disk struct {
	*raft.InmemStore
	mu     sync.Mutex
	hold   chan struct{} // writes wait until it is closed; nil: they do not
	refuse error
}

func newDisk() *disk { return &disk{InmemStore: raft.NewInmemStore()} }

func (d *disk) StoreLogs(entries []*raft.Log) error {
	d.mu.Lock()
	hold, refuse := d.hold, d.refuse
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if refuse != nil {
		return refuse
	}
	last, _ := d.LastIndex()
	if last > 0 && entries[0].Index != last+1 {
		return fmt.Errorf("entry %d after entry %d", entries[0].Index, last)
	}
	return d.InmemStore.StoreLogs(entries)
}

func (d *disk) set(hold chan struct{}, refuse error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold, d.refuse = hold, refuse
}

// has says up to where the disk has the log.
func (d *disk) has() uint64 { last, _ := d.LastIndex(); return last }

// aheadRig is a log of a replica whose role a test decides.
type aheadRig struct {
	*aheadLog
	disk            *disk
	leading, others bool
	refusals        chan struct{}
}

func newAheadRig() *aheadRig {
	r := &aheadRig{disk: newDisk(), leading: true, others: true, refusals: make(chan struct{}, 16)}
	r.aheadLog = newAheadLog(r.disk, func() bool { return r.leading }, func() bool { return r.others }, func() { r.refusals <- struct{}{} })
	return r
}

// hasFailed reports whether the last write was refused.
func (r *aheadRig) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func entriesOf(term uint64, indexes ...uint64) []*raft.Log {
	var out []*raft.Log
	for _, i := range indexes {
		out = append(out, &raft.Log{Index: i, Term: term, Data: []byte(fmt.Sprint(term, "/", i))})
	}
	return out
}

func TestALeaderSendsWhileItsDiskWritesAndCountsNoAnswerBeforeThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hold := newAheadRig(), make(chan struct{})
		r.disk.set(hold, nil)
		if err := r.StoreLogs(entriesOf(1, 1, 2)); err != nil {
			t.Fatal(err)
		}
		var entry raft.Log
		if err := r.GetLog(2, &entry); err != nil || string(entry.Data) != "1/2" {
			t.Errorf("an entry for the followers: got %+v, %v", entry, err)
		}
		if last, err := r.LastIndex(); err != nil || last != 2 {
			t.Errorf("last index: got %d, %v, want 2", last, err)
		}
		if first, err := r.FirstIndex(); err != nil || first != 1 {
			t.Errorf("first index: got %d, %v, want 1", first, err)
		}
		answered := make(chan bool, 1)
		go func() { answered <- r.written(1, true, nil) }()
		synctest.Wait()
		if len(answered) > 0 {
			t.Error("an answer for an entry that is on no disk was let through")
		}
		close(hold)
		synctest.Wait()
		if len(answered) == 0 || !<-answered || r.disk.has() != 2 {
			t.Errorf("once it is written: %d entries are on disk", r.disk.has())
		}
	})
}

func TestAWriteThatNobodyElseVouchesForIsFinishedFirst(t *testing.T) {
	for name, prepare := range map[string]func(r *aheadRig, entries []*raft.Log){
		"a follower's":           func(r *aheadRig, _ []*raft.Log) { r.leading = false },
		"a sole voter's":         func(r *aheadRig, _ []*raft.Log) { r.others = false },
		"a change of membership": func(_ *aheadRig, entries []*raft.Log) { entries[1].Type = raft.LogConfiguration },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, hold := newAheadRig(), make(chan struct{})
				r.disk.set(hold, nil)
				if err := r.StoreLogs(entriesOf(1, 1)); err != nil { // ahead of the disk
					t.Fatal(err)
				}
				entries := entriesOf(1, 2, 3)
				prepare(r, entries)
				stored := make(chan error, 1)
				go func() { stored <- r.StoreLogs(entries) }()
				synctest.Wait()
				if len(stored) > 0 {
					t.Fatal("the entries count as stored and are on no disk")
				}
				close(hold)
				if err := <-stored; err != nil || r.disk.has() != 3 {
					t.Errorf("got %v and %d entries on disk, want 3", err, r.disk.has())
				}
			})
		})
	}
}

func TestAFormerLeaderConfirmsNothingThatItHasNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hold := newAheadRig(), make(chan struct{})
		r.disk.set(hold, nil)
		if err := r.StoreLogs(entriesOf(1, 1)); err != nil {
			t.Fatal(err)
		}
		r.leading = false
		read := make(chan error, 1)
		var entry raft.Log
		go func() { read <- r.GetLog(1, &entry) }() // as for an entry that it is sent again
		synctest.Wait()
		if len(read) > 0 {
			t.Error("it says that it has an entry that is on no disk")
		}
		close(hold)
		if err := <-read; err != nil || r.disk.has() != 1 {
			t.Errorf("got %v, with %d entries on disk", err, r.disk.has())
		}
	})
}

func TestWhatAFullDiskRefusedComesBeforeWhatIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig()
		r.disk.set(nil, syscall.ENOSPC)
		if err := r.StoreLogs(entriesOf(1, 1, 2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(r.refusals) != 1 {
			t.Errorf("the leader was told %d times, want once", len(r.refusals))
		}
		if r.written(1, false, nil) {
			t.Error("an answer was let through for what the disk has refused")
		}
		if err := r.StoreLogs(entriesOf(1, 3)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the next write: got %v, want the full disk, at which the library steps down", err)
		}
		var entry raft.Log
		r.leading = false
		if err := r.GetLog(2, &entry); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("confirming what is not written: got %v, want the full disk", err)
		}
		r.disk.set(nil, nil)
		if err := r.StoreLogs(entriesOf(2, 3)); err != nil {
			t.Errorf("once there is room: %v", err)
		}
		if r.disk.has() != 3 || !r.written(3, false, nil) {
			t.Errorf("%d entries are on disk, want 3", r.disk.has())
		}
	})
}

func TestAnEndThatALaterLeaderReplacesNeedsNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig()
		if err := r.StoreLogs(entriesOf(1, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.disk.set(nil, syscall.ENOSPC)
		if err := r.StoreLogs(entriesOf(1, 2, 3)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.leading = false
		if err := r.DeleteRange(2, 3); err != nil {
			t.Fatal(err)
		}
		r.disk.set(nil, nil)
		if err := r.StoreLogs(entriesOf(2, 2)); err != nil {
			t.Fatal(err)
		}
		var entry raft.Log
		if err := r.GetLog(2, &entry); err != nil || string(entry.Data) != "2/2" {
			t.Errorf("got %+v, %v, want the entry of term 2", entry, err)
		}
		if last, err := r.LastIndex(); err != nil || last != 2 {
			t.Errorf("last index: got %d, %v, want 2", last, err)
		}
	})
}

// Whatever the roles, the disk and the truncations: what is read is what a log
// without a disk would hold, and what is called written is on the disk.
func TestALogAheadOfItsDiskReadsLikeOneThatIsNot(t *testing.T) {
	for seed := range int64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewSource(seed))
			r, want := newAheadRig(), []*raft.Log{}
			var hold chan struct{}
			release := func() {
				if hold != nil {
					close(hold)
					hold = nil
				}
				r.disk.set(nil, nil)
				synctest.Wait()
			}
			term := uint64(1)
			for range 60 {
				switch rng.Intn(6) {
				case 0, 1: // a leader appends
					if r.hasFailed() {
						release() // what was refused is written first, which waits
					}
					r.leading = true
					n := uint64(len(want))
					entries := entriesOf(term, n+1, n+2)
					if r.StoreLogs(entries) == nil {
						want = append(want, entries...)
					}
				case 2: // a follower appends
					release()
					r.leading, term = false, term+1
					entries := entriesOf(term, uint64(len(want))+1)
					if err := r.StoreLogs(entries); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					want = append(want, entries...)
				case 3: // a follower drops the end
					if n := len(want); n > 2 {
						release()
						r.leading, term = false, term+1
						if err := r.DeleteRange(uint64(n-1), uint64(n)); err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						want = want[:n-2]
					}
				case 4:
					if hold == nil {
						hold = make(chan struct{})
						r.disk.set(hold, []error{nil, syscall.ENOSPC}[rng.Intn(2)])
					}
				case 5:
					release()
				}
				if hold == nil {
					synctest.Wait()
				}
				r.leading = true // who reads as a leader does not wait
				agree(t, seed, r, want)
			}
			release()
			r.leading = false
			if len(want) > 0 {
				if err := r.GetLog(uint64(len(want)), new(raft.Log)); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			if r.disk.has() != uint64(len(want)) {
				t.Errorf("seed %d: %d entries are on disk, want %d", seed, r.disk.has(), len(want))
			}
			r.close()
		})
	}
}

func agree(t *testing.T, seed int64, r *aheadRig, want []*raft.Log) {
	t.Helper()
	if last, err := r.LastIndex(); err != nil || last != uint64(len(want)) {
		t.Fatalf("seed %d: last index %d, %v, want %d", seed, last, err, len(want))
	}
	done := make(chan struct{})
	close(done)
	for i, e := range want {
		var got raft.Log
		if err := r.GetLog(uint64(i+1), &got); err != nil || !slices.Equal(got.Data, e.Data) {
			t.Fatalf("seed %d: entry %d is %q, %v, want %q", seed, i+1, got.Data, err, e.Data)
		}
		if onDisk := r.disk.InmemStore.GetLog(uint64(i+1), &got) == nil && got.Term == e.Term; !onDisk && r.written(uint64(i+1), false, done) {
			t.Fatalf("seed %d: entry %d is called written and is not", seed, i+1)
		}
	}
}
