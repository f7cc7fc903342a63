//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/e2e/history"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// aloneFor is how long a leader that has just lost both followers is
	// asked; it gives up leading after half of the heartbeat time-out.
	aloneFor = 120 * time.Millisecond
	// aloneTries bounds how often a leader may have given up before it was
	// asked, on a machine that is out of breath.
	aloneTries = 5
	// mutantSymbol is in the mutant build only.
	mutantSymbol = "raftnode.foretell"
)

// The judge of histories is not blind: a master that answers before the commit
// is found by it. The shipped build passes the same scenario.
func TestAMasterThatAnswersBeforeTheCommitIsFound(t *testing.T) {
	skipLong(t)
	mutant := filepath.Join(t.TempDir(), "hearth-mutant")
	args := append([]string{"build", "-tags", "mutant"}, buildFlags...)
	build := exec.Command("go", append(args, "-o", mutant, "github.com/hearthd/hearth/cmd/hearth")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutant: %v\n%s", err, out)
	}
	for name, tc := range map[string]struct {
		binary string
		found  bool
	}{"mutant": {mutant, true}, "shipped": {hearthBinary, false}} {
		t.Run(name, func(t *testing.T) {
			if got := hasSymbol(t, tc.binary); got != tc.found {
				t.Fatalf("%s is in the binary: %t, want %t", mutantSymbol, got, tc.found)
			}
			c := newClusterOf(t, tc.binary, size{workers: 1})
			e, ports, rec := newEars(t), newReservation(t), history.NewRecorder()
			acknowledged := false
			for try := 0; try < aloneTries && !acknowledged; try++ {
				acknowledged = c.askALeaderThatIsAlone(t, e, ports, rec)
				if !tc.found {
					break
				}
			}
			if acknowledged != tc.found {
				t.Fatalf("a leader without followers acknowledged a command: %t, want %t", acknowledged, tc.found)
			}
			if !tc.found {
				c.prove(t, e, rec, "")
				return
			}
			ops := rec.Operations()
			for n, m := range c.masters {
				lines := c.readReplica(t, e, m, rec, replicaClient+n, ops)
				if len(lines) == 0 {
					t.Errorf("nothing is missed on %s", m.name)
				}
				t.Logf("%s: %q", m.name, lines)
			}
			err := history.Check(rec.Operations(), checkLimit)
			if err == nil || errors.Is(err, history.ErrUndecided) {
				t.Errorf("the judge of the history says %v", err)
			}
			t.Log(err)
		})
	}
}

func hasSymbol(t *testing.T, binary string) bool {
	t.Helper()
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte(mutantSymbol))
}

// askALeaderThatIsAlone kills both followers, asks the leader for a
// registration and a kill before it notices, and kills it too. The followers
// come back first, so that its log, which is longer than theirs, does not win.
// It reports whether one of the two calls was acknowledged.
func (c *cluster) askALeaderThatIsAlone(t *testing.T, e *ears, ports *reservation, rec *history.Recorder) bool {
	t.Helper()
	leader, st := e.whole(t, c)
	cl, err := c.access.client("e2e", leader.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }() // its calls have returned
	l := &load{rec: rec}
	kept := loadApp{spec: commandSpec("kept-"+cl.NewRequestID(), 4096, "true"), request: cl.NewRequestID()}
	lost := loadApp{spec: commandSpec("lost-"+cl.NewRequestID(), 4096, "true"), request: cl.NewRequestID()}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	l.register(ctx, 0, cl, kept)
	if len(l.recent) != 1 {
		t.Fatalf("a whole cluster did not acknowledge %s", kept.spec.Name)
	}
	c.everywhere(t, e, kept.spec.Name)

	followers := c.others(leader)
	for _, m := range followers {
		m.proc.signal(t, syscall.SIGKILL)
	}
	hasty, stop := context.WithTimeout(ctx, aloneFor)
	defer stop()
	op := history.Operation{Key: kept.spec.Name, Kind: history.Kill, App: string(l.recent[0].id)}
	killed := rec.Do(op, func(op *history.Operation) {
		op.Outcome = l.outcome(cl.KillApp(hasty, model.AppID(op.App), "asked of a leader that is alone"))
	})
	l.register(hasty, 0, cl, lost)
	leader.proc.signal(t, syscall.SIGKILL)

	for _, m := range c.masters {
		m.proc.awaitEnd(t, goneWithin)
		ports.keep(t, m)
	}
	for _, m := range followers {
		c.launchThere(t, m)
	}
	old := leader
	eventually(t, settleWithin, "a follower leads", func() string {
		for _, m := range c.others(old) {
			if now, err := e.ask(t, m); err == nil && now.Term > st.Term && string(now.Leader) == m.ID {
				return ""
			}
		}
		return "none does"
	})
	c.launchThere(t, old)
	e.whole(t, c)
	for _, line := range l.odd {
		t.Error(line)
	}
	return killed.Outcome == history.Done || len(l.recent) > 1
}

// everywhere waits until every master's own state has an application.
func (c *cluster) everywhere(t *testing.T, e *ears, name string) {
	t.Helper()
	eventually(t, settleWithin, name+" is on every master", func() string {
		for _, m := range c.masters {
			ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
			r, err := rpc.ClusterClient(e.to(t, m)).Apps(ctx, rpc.AppsRequest{})
			cancel()
			if err != nil {
				return err.Error()
			}
			found := false
			for _, a := range r.Apps {
				found = found || a.Name == name
			}
			if !found {
				return m.name + " does not have it"
			}
		}
		return ""
	})
}
