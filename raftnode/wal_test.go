package raftnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/types"
)

// walTestSegment makes segments fill up quickly.
const walTestSegment = 64 << 10

func walEntries(from, to uint64, text string) []*raft.Log {
	var out []*raft.Log
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: 1, Data: fmt.Appendf(nil, "%s %d", text, i)})
	}
	return out
}

// A follower drops a conflicting tail and goes on; whatever was written around
// that is there after a restart (raft-wal before v0.4.1 sealed the segment
// without its index and could not read it again).
func TestALogWhoseTailWasDroppedCanBeReadAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), walFolder)
	logs := walEntries
	w, closeWAL, err := openWAL(dir, walTestSegment, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return w.StoreLogs(logs(1, 10, "old")) },
		func() error { return w.DeleteRange(7, 10) },
		func() error { return w.StoreLogs(logs(7, 12, "new")) },
		// Everything after the last drop is gone with it.
		func() error { return w.DeleteRange(12, 12) },
		closeWAL,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	w, closeWAL, err = openWAL(dir, walTestSegment, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := closeWAL(); err != nil {
			t.Error(err)
		}
	}()
	if last, err := w.LastIndex(); err != nil || last != 11 {
		t.Errorf("the last index is %d, error %v, want 11", last, err)
	}
	for i := uint64(1); i <= 11; i++ {
		want := fmt.Sprintf("old %d", i)
		if i > 6 {
			want = fmt.Sprintf("new %d", i)
		}
		var l raft.Log
		if err := w.GetLog(i, &l); err != nil || string(l.Data) != want {
			t.Errorf("entry %d is %q, error %v, want %q", i, l.Data, err, want)
		}
	}
	if err := w.StoreLogs(logs(12, 13, "newer")); err != nil {
		t.Errorf("append after the restart: %v", err)
	}
}

// dyingMeta is a meta store whose process dies before it notes anything.
type dyingMeta struct {
	walMeta
	dead bool
}

var errDied = errors.New("the process died")

func (d *dyingMeta) CommitState(s types.PersistentState) error {
	if d.dead {
		return errDied
	}
	return d.walMeta.CommitState(s)
}

// A process may die between the seal of a segment and the note of it.
func TestALogGoesOnWhenItsProcessDiedDuringAChangeOfSegments(t *testing.T) {
	for name, change := range map[string]func(*wal.WAL) (last uint64){
		"because a segment was full": func(w *wal.WAL) uint64 {
			last := uint64(3)
			for big := strings.Repeat("x", 10_000); ; last++ {
				if err := w.StoreLogs(walEntries(last+1, last+1, big)); err != nil {
					return last
				}
			}
		},
		"because a tail was dropped": func(w *wal.WAL) uint64 {
			if err := w.DeleteRange(3, 3); !errors.Is(err, errDied) {
				t.Errorf("dropping the tail gave %v, want the death of the process", err)
			}
			return 3 // the drop was not noted, Raft drops it again
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			meta := &dyingMeta{walMeta: walMeta{log: hclog.NewNullLogger()}}
			w, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentSize(walTestSegment), wal.WithLogger(hclog.NewNullLogger()))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.StoreLogs(walEntries(1, 3, "before")); err != nil {
				t.Fatal(err)
			}
			meta.dead = true
			want := change(w)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a repaired log is one like any other
				w, closeWAL, err := openWAL(dir, walTestSegment, hclog.NewNullLogger())
				if err != nil {
					t.Fatal(err)
				}
				if last, err := w.LastIndex(); err != nil || last != want {
					t.Errorf("the last index is %d, error %v, want %d", last, err, want)
				}
				if err := w.StoreLogs(walEntries(want+1, want+2, "after")); err != nil {
					t.Errorf("append after the death: %v", err)
				}
				want += 2
				for i := uint64(1); i <= want; i++ {
					var l raft.Log
					if err := w.GetLog(i, &l); err != nil || l.Index != i {
						t.Errorf("entry %d: got %d, error %v", i, l.Index, err)
					}
				}
				if err := w.DeleteRange(want, want); err != nil {
					t.Errorf("drop the tail: %v", err)
				}
				want--
				if err := closeWAL(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
