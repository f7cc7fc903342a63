//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// life is when one copy of a program was first and last seen by itself, and
// when it got SIGTERM.
type life struct {
	pid               int
	first, last, term time.Time
}

// lives reads what copies of beating have written.
func lives(t testing.TB, path string) []life {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byPID := map[int]*life{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // the last one may be half written
		}
		pid, pidErr := strconv.Atoi(f[1])
		ns, nsErr := strconv.ParseInt(f[2], 10, 64)
		if pidErr != nil || nsErr != nil {
			t.Fatalf("line %q", line)
		}
		at := time.Unix(0, ns)
		l := byPID[pid]
		if l == nil {
			l = &life{pid: pid, first: at}
			byPID[pid] = l
		}
		l.last = at
		if f[0] == "term" {
			l.term = at
		}
	}
	var out []life
	for _, l := range byPID {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b life) int { return a.first.Compare(b.first) })
	return out
}

// beating writes down each twentieth of a second that it lives; SIGTERM does
// not end it.
const beating = `trap 'echo term $$ $(date +%s%N) >> "$0"' TERM
while :; do echo beat $$ $(date +%s%N) >> "$0"; sleep 0.05; done`

// PR-15 on real processes, with the default worker_timeout of 10 s: the worker
// that runs the only copy is stopped, its keeper and the copy are not.
func TestPR15TheOnlyCopyEndsBeforeItIsReplacedAndTheReplacementIsLeftAlone(t *testing.T) {
	skipLong(t)
	const timeout = 10 * time.Second
	c := newCluster(t, size{workers: 2, cores: 2})
	path := filepath.Join(t.TempDir(), "lives")
	app := c.run(t, "submit", "--disconnect", "singleton", "--", "sh", "-c", beating, path).wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 1)
	if v.Disconnect != string(model.DisconnectSingleton) {
		t.Errorf("disconnect is %q", v.Disconnect)
	}
	first := live(v)[0]
	at := slices.IndexFunc(c.workers, func(w *node) bool { return w.ID == string(first.Worker) })
	sleeper := c.workers[at]
	stopped := time.Now() // its last answered beat was sent up to a second before
	sleeper.stop(t)
	eventually(t, settleWithin, "there is a replacement", func() string {
		if v = c.describe(t, app); len(running(v)) != 1 || running(v)[0].ID == first.ID {
			return fmt.Sprintf("%d run", len(running(v)))
		}
		return ""
	})
	second := running(v)[0]
	both := lives(t, path)
	if len(both) != 2 || both[0].pid != first.PID || both[1].pid != second.PID {
		t.Fatalf("lives %+v, want those of processes %d and %d", both, first.PID, second.PID)
	}
	old, fresh := both[0], both[1]
	t.Logf("SIGTERM %s, last sign %s and replacement %s after the stop", old.term.Sub(stopped), old.last.Sub(stopped), fresh.first.Sub(stopped))
	if overlap := old.last.Sub(fresh.first); overlap >= 0 {
		t.Errorf("two copies lived for %s", overlap)
	}
	// Times of the machine's load, not of ours, are on top of these.
	if d := old.term.Sub(stopped); old.term.IsZero() || d < timeout*5/10-1500*time.Millisecond {
		t.Errorf("SIGTERM after %s, want about %s", d, timeout*5/10)
	}
	if d := fresh.first.Sub(stopped); d < timeout-1500*time.Millisecond {
		t.Errorf("replaced after %s, want about %s", d, timeout)
	}
	sleeper.cont(t)
	eventually(t, settleWithin, "the sleeper is back", func() string {
		if w, _ := worker(c.status(t), sleeper.ID); w.State != model.WorkerAlive {
			return string(w.State)
		}
		return ""
	})
	steady(t, 5*time.Second, "the replacement is left alone", func() string {
		if now := running(c.describe(t, app)); len(now) != 1 || now[0].PID != second.PID {
			return fmt.Sprintf("%+v run", now)
		}
		return ""
	})
	if zombie(second.PID) {
		t.Error("the replacement is gone")
	}
}
