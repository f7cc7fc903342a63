package raftnode

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/fsm"
)

func TestTheClusterClockNeverLosesTheTimeOfACommit(t *testing.T) {
	var c clock
	began := time.Now()
	at := began
	c.set(1000, at)
	// Each entry is stamped as soon as the one before is applied, and takes
	// 5 ms to be applied itself.
	for range 100 {
		stamped := c.atLocked(at)
		at = at.Add(5 * time.Millisecond)
		c.set(stamped, at)
	}
	if got, want := c.atLocked(at)-1000, at.Sub(began).Milliseconds(); got != want {
		t.Errorf("advanced %d ms in %d ms", got, want)
	}
	c.set(9000, at)
	if got := c.atLocked(at); got != 9000 {
		t.Errorf("got %d after a tick that was ahead, want 9000", got)
	}
}

type failingSnapshot struct{ err error }

func (f failingSnapshot) WriteTo(io.Writer) (int64, error) { return 0, f.err }

func TestOnlyABrokenStateStopsTheNodeWhenASnapshotFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"a state that breaks its rules does", fmt.Errorf("write: %w", fsm.ErrBroken), true},
		{"a disk that is full does not", errors.New("no space"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sink, err := raft.NewInmemSnapshotStore().Create(1, 1, 1, raft.Configuration{}, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			var failed error
			p := persister{failingSnapshot{tc.err}, func(err error) { failed = err }, Observer{}}
			if err := p.Persist(sink); !errors.Is(err, tc.err) {
				t.Errorf("got %v, want %v", err, tc.err)
			}
			if got := failed != nil; got != tc.want {
				t.Errorf("stops = %t (%v), want %t", got, failed, tc.want)
			}
		})
	}
}
