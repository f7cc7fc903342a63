//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// logLines counts the lines of a worker's log with all of these texts.
func (c *cluster) logLines(t testing.TB, w *node, texts ...string) (lines int) {
	t.Helper()
	data, err := os.ReadFile(c.dataDir(w) + ".log")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		all := true
		for _, text := range texts {
			all = all && bytes.Contains(line, []byte(text))
		}
		if all {
			lines++
		}
	}
	return lines
}

// Eight executors that start at once on each worker fetch their program once, a
// planned restart of a worker and the death of the leader take nothing from it, and
// the next application finds it there.
func TestAProgramIsFetchedOncePerWorkerAndOutlivesAPlannedRestartOfIt(t *testing.T) {
	skipLong(t)
	const batches, points = 120, 2_000_000
	path := buildExample(t, "pi")
	c := newCluster(t, size{cores: 8})
	args := []string{"--batches", fmt.Sprint(batches), "--points", fmt.Sprint(points), "--executor-cores", "1", "--memory", "64m"}
	undisturbed := c.startExample(t, path, args...).finished(t).stdout
	e := c.startExample(t, path, args...)
	e.await(t, "a batch is done", batches/10)
	w := c.workers[0]
	before := processesOf(w.ID)
	c.control(t, w, "restart").wantCode(t, 0)
	if s := c.workerStatus(t, w, 0); s.Heritage.Adopted != 8 {
		t.Errorf("%d executors were adopted, want 8", s.Heritage.Adopted)
	}
	e.await(t, "a batch is done", batches/2)
	c.leader(t).proc.kill9(t)
	if after := processesOf(w.ID); len(after) < len(before) {
		t.Errorf("processes:\n%s\nbefore the restart:\n%s", list(after), list(before))
	}
	if r := e.finished(t); r.stdout != undisturbed {
		t.Errorf("got %q, undisturbed it was %q", r.stdout, undisturbed)
	}
	if n := e.told(t, "executor ended"); n > 0 {
		t.Errorf("%d executors ended before the program did", n)
	}
	for _, w := range c.workers {
		if n := c.logLines(t, w, "program is here"); n != 1 {
			t.Errorf("%s has got the program %d times, want once for two applications with 8 executors each", w.name, n)
		}
	}
}

// A program that is where --program says is not fetched; another one there is not
// run.
func TestAProgramAtAPathOfTheWorkerIsUsedOnlyWithTheRightDigest(t *testing.T) {
	skipLong(t)
	path := buildExample(t, "pi")
	c := newCluster(t, size{workers: 1})
	there := filepath.Join(t.TempDir(), "pi")
	if err := os.WriteFile(there, []byte("#!/bin/sh\nexit 7\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	args := []string{"--batches", "4", "--points", "1000", "--program", there}
	c.startExample(t, path, args...).finished(t)
	if n := c.logLines(t, c.workers[0], "program is here", "from=127.0.0.1"); n != 1 {
		t.Errorf("fetched %d times from the driver, want once: at the path is another program", n)
	}
	// Forget it, and put the right one there.
	cached, err := filepath.Glob(filepath.Join(c.dataDir(c.workers[0]), "work", "programs", "*"))
	if err != nil || len(cached) != 1 {
		t.Fatalf("in the cache: %q, %v", cached, err)
	}
	if st, err := os.Stat(cached[0]); err != nil || st.Mode() != 0o700 {
		t.Errorf("%s has mode %s, want -rwx------", cached[0], st.Mode())
	}
	if err := os.Rename(cached[0], there); err != nil {
		t.Fatal(err)
	}
	c.startExample(t, path, args...).finished(t)
	if n := c.logLines(t, c.workers[0], "program is here", "from="+there); n != 1 {
		t.Errorf("taken %d times from its path, want once", n)
	}
}

// A program that cannot run here is a failure to start, or an exit, that says why,
// and ends its application instead of being tried for ever.
func TestAProgramThatDoesNotRunHereFailsItsApplicationWithAReason(t *testing.T) {
	skipLong(t)
	path := buildExample(t, "pi")
	c := newCluster(t, size{workers: 1})
	// The worker cannot keep it: its directory of programs is taken away.
	dir := filepath.Join(c.dataDir(c.workers[0]), "work", "programs")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := c.startExample(t, path, "--batches", "4", "--points", "1000", "--name", "homeless")
	var reason string
	eventually(t, settleWithin, "an executor has failed with a reason", func() string {
		for _, a := range c.status(t).Apps {
			if a.Name != "homeless" {
				continue
			}
			for _, x := range c.describe(t, a.ID).Executors {
				if x.State == model.ExecutorFailed {
					reason = x.Reason
					return ""
				}
			}
		}
		return "none has"
	})
	if !strings.Contains(reason, "could not be started: program sha256:") || !strings.Contains(reason, "not a directory") {
		t.Errorf("the reason is %q", reason)
	}
	// Once it can, the program runs: nothing is left of the failures.
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.finished(t)
}
