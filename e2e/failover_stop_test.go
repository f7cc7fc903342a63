//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/e2e/history"
)

const (
	// stopsVariable sets the number of pauses, and lets the claims about their
	// percentiles be judged; see make failover.
	stopsVariable = "HEARTH_FAILOVER_STOPS"
	stopsDefault  = 4

	// heartbeatTimeout is that of the default preset: after it the standbys
	// agree that the leader is silent. By the timers of the library alone it
	// would take more than twice as long.
	heartbeatTimeout = 300 * time.Millisecond
	stopP50          = heartbeatTimeout * 15 / 10
	stopP99          = heartbeatTimeout * 2
	// stopMedian is asked of any run, on any machine.
	stopMedian = heartbeatTimeout * 3
)

// A leader that is silent, but whose connections stay open, is replaced after
// the time-out of its preset; when it wakes up it follows.
func TestAClientOfStandbysIsAnsweredSoonAfterTheLeaderFreezes(t *testing.T) {
	skipLong(t)
	stops, full := numberFrom(t, stopsVariable, stopsDefault)
	c := newCluster(t, size{workers: 2})
	e, rec := newEars(t), history.NewRecorder()
	var took delays
	for n := range stops {
		leader, _ := e.whole(t, c)
		took.add(c.freezeLeader(t, leader, rec, fmt.Sprintf("probe-%03d", n)))
	}
	e.whole(t, c)
	took.report(t, "SIGSTOP of the leader to the answer at a client that knew only standbys")
	c.prove(t, e, rec, "")
	switch p50, p99 := percentile(took.answered, 50), percentile(took.answered, 99); {
	case full && (p50 > stopP50 || p99 > stopP99):
		t.Errorf("p50 %s and p99 %s, want at most %s and %s", p50, p99, stopP50, stopP99)
	case p50 > stopMedian:
		t.Errorf("p50 %s, want at most %s", p50, stopMedian)
	}
}

// freezeLeader pauses the leader until a client that knew only standbys has
// registered an application, and returns how long that took.
func (c *cluster) freezeLeader(t *testing.T, leader *node, rec *history.Recorder, name string) delay {
	t.Helper()
	took := c.answeredAfter(t, leader, rec, name, func() error {
		leader.paused = true
		return leader.proc.handle.Signal(syscall.SIGSTOP)
	})
	leader.cont(t)
	return took
}
