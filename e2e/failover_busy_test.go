//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/e2e/history"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// busyVariable is how long the machine is kept busy; see make failover.
	busyVariable = "HEARTH_FAILOVER_BUSY"
	busyDefault  = 15 * time.Second
	busyClients  = 2
)

// busyMachine keeps every core busy with twice as many processes as there are
// cores, of normal priority, which end by themselves if the test cannot end
// them.
func busyMachine(t *testing.T, during time.Duration) {
	t.Helper()
	limit := strconv.Itoa(int(during.Seconds()) + 30)
	for range 2 * runtime.NumCPU() {
		cmd := exec.Command("timeout", limit, "sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatalf("start a busy process: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Errorf("end a busy process: %v", err)
			}
			_ = cmd.Wait() // it was killed
		})
	}
}

// The default preset bears a machine that is out of breath: nobody calls an
// election, and no worker is given up.
func TestNobodyIsDeclaredDeadWhileAllCoresAreBusy(t *testing.T) {
	skipLong(t)
	during := busyDefault
	if text := os.Getenv(busyVariable); text != "" {
		var err error
		if during, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", busyVariable, err)
		}
	}
	c := newCluster(t, size{workers: 3})
	e, rec := newEars(t), history.NewRecorder()
	leader, before := e.whole(t, c)
	incarnations := map[model.WorkerID]uint64{}
	for _, w := range c.status(t).Workers {
		incarnations[w.ID] = w.Incarnation
	}
	busyMachine(t, during)
	l := startLoad(t, c, rec, 1, busyClients)
	steady(t, during, "the cluster is as it was", func() string {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		r, err := rpc.ClusterClient(e.to(t, leader)).Workers(ctx)
		if err != nil {
			return err.Error()
		}
		if r.Staleness.Term != before.Term || r.Staleness.Leader != before.Leader {
			return fmt.Sprintf("%q leads term %d, was %q in term %d", r.Staleness.Leader, r.Staleness.Term, before.Leader, before.Term)
		}
		for _, w := range r.Workers {
			if w.State != model.WorkerAlive || w.Incarnation != incarnations[w.ID] {
				return fmt.Sprintf("%s is %s in incarnation %d, was %d: %s", w.ID, w.State, w.Incarnation, incarnations[w.ID], w.Reason)
			}
		}
		return ""
	})
	for _, m := range c.masters {
		st, err := e.ask(t, m)
		if err != nil || st.Term != before.Term {
			t.Errorf("%s is in term %d, error %v, want %d", m.name, st.Term, err, before.Term)
		}
	}
	l.end(t)
	var slow []time.Duration
	for _, op := range rec.Operations() {
		slow = append(slow, op.Return-op.Call)
	}
	report(t, fmt.Sprintf("answers while all cores were busy for %s", during), slow)
	c.prove(t, e, rec, "")
}
