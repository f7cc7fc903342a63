//go:build e2e

package e2e

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hearthd/hearth/rpc"
)

// exampleWithin bounds one run of an example, faults included.
const exampleWithin = 3 * time.Minute

// buildExample builds a program of examples/.
func buildExample(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := append([]string{"build"}, buildFlags...)
	build := exec.Command("go", append(args, "-o", path, "github.com/hearthd/hearth/examples/"+name)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build example %s: %v\n%s", name, err, out)
	}
	return path
}

// example is a program that runs, with its log in a file.
type example struct {
	*command
	log string
}

// startExample starts a program against the cluster; it tells what it does.
func (c *cluster) startExample(t testing.TB, path string, args ...string) *example {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	args = append([]string{"-c", `exec "$0" "$@" 2>"$EXAMPLE_LOG"`, path, "--log-level", "info"}, args...)
	return &example{log: log, command: startBinary(t, "/bin/sh", c.env(c.masterList, "EXAMPLE_LOG="+log), "", args...)}
}

// told counts the lines of the log with a text in them.
func (e *example) told(t testing.TB, text string) int {
	t.Helper()
	data, err := os.ReadFile(e.log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte(text))
}

// await waits until a text is in so many lines of the log.
func (e *example) await(t testing.TB, text string, lines int) {
	t.Helper()
	eventually(t, exampleWithin, fmt.Sprintf("%d lines with %q", lines, text), func() string {
		if n := e.told(t, text); n < lines {
			return fmt.Sprintf("%d lines", n)
		}
		return ""
	})
}

// finished waits for the end of the program, which must be a good one.
func (e *example) finished(t testing.TB) result {
	t.Helper()
	r := e.wait(t)
	if r.code != 0 {
		data, _ := os.ReadFile(e.log) // shown as far as it can be read
		t.Fatalf("code %d\n%s\n%s", r.code, clip(r.stdout), data[max(0, len(data)-4000):])
	}
	return r
}

// disturb kills a worker and the leader in the middle of a program's work; done is
// in the log once for each piece of that.
func (c *cluster) disturb(t *testing.T, e *example, done string, pieces int) {
	t.Helper()
	e.await(t, done, pieces/5)
	c.workers[0].proc.kill9(t)
	t.Logf("%d of %d pieces were done when a worker was killed", e.told(t, done), pieces)
	e.await(t, done, pieces/2)
	c.leader(t).proc.kill9(t)
	t.Logf("%d of %d pieces were done when the leader was killed", e.told(t, done), pieces)
	c.restart(t, c.workers[0])
}

func TestTheExamplePiCountsEveryPointOnceWhileAWorkerAndTheLeaderDie(t *testing.T) {
	skipLong(t)
	const batches, points = 150, 2_000_000
	path := buildExample(t, "pi")
	c := newCluster(t, size{})
	e := c.startExample(t, path, "--batches", strconv.Itoa(batches), "--points", strconv.Itoa(points), "--seed", "7")
	c.disturb(t, e, "a batch is done", batches)
	var hits int
	for n := range uint64(batches) {
		rnd := rand.New(rand.NewPCG(7, n))
		for range points {
			if x, y := rnd.Float64(), rnd.Float64(); x*x+y*y < 1 {
				hits++
			}
		}
	}
	want := fmt.Sprintf("%d of %d points hit: pi is about %.6f\n", hits, batches*points, 4*float64(hits)/(batches*points))
	if r := e.finished(t); r.stdout != want {
		t.Errorf("got %q, want %q", r.stdout, want)
	}
}

func TestTheExampleSweepWritesTheSameTableWhileAWorkerAndTheLeaderDie(t *testing.T) {
	skipLong(t)
	const steps = 12
	path := buildExample(t, "sweep")
	c := newCluster(t, size{})
	table := func(name string) string { return filepath.Join(t.TempDir(), name) }
	undisturbed, disturbed := table("undisturbed.csv"), table("disturbed.csv")
	args := []string{"--steps", strconv.Itoa(steps), "--days", "365", "--per-day", "30000"}
	c.startExample(t, path, append(args, "--csv", undisturbed)...).finished(t)
	e := c.startExample(t, path, append(args, "--csv", disturbed, "--least-executors", "1", "--most-executors", "4", "--executor-cores", "2")...)
	c.disturb(t, e, "a point is done", steps*steps)
	e.finished(t)
	want, err := os.ReadFile(undisturbed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(disturbed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the tables differ: %d and %d bytes", len(got), len(want))
	}
	rows, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
	if err != nil || len(rows) != steps*steps+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	// Without recovery to speak of, nearly everybody is infected; with more recovery
	// than infection, nearly nobody.
	for _, check := range []struct {
		row       int
		low, high float64
	}{{steps * (steps - 1), 0.99, 1}, {steps - 1, 0, 0.01}} {
		if total, err := strconv.ParseFloat(rows[1+check.row][4], 64); err != nil || total < check.low || total > check.high {
			t.Errorf("row %q: total %g, %v", rows[1+check.row], total, err)
		}
	}
}

func TestTheExampleWordcountCountsEveryWordOnceWhileAWorkerAndTheLeaderDie(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts: %v", err)
	}
	want := map[string]int{}
	total := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		total += len(text)
		for _, w := range strings.FieldsFunc(string(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			want[strings.ToLower(w)]++
		}
	}
	const piece = 500
	path := buildExample(t, "wordcount")
	c := newCluster(t, size{})
	args := append([]string{"--top", "0", "--piece", strconv.Itoa(piece), "--parts", "40", "--executor-cores", "1"}, files...)
	e := c.startExample(t, path, args...)
	c.disturb(t, e, "a piece is counted", total/piece*2/3) // pieces end with a word
	wantCounts(t, e.finished(t), want)

	// Each round on executors of its own size.
	e = c.startExample(t, path, append([]string{"--name", "two sizes", "--executors", "2", "--memory", "64m", "--add-memory", "96"}, args...)...)
	wantCounts(t, e.finished(t), want)
	ended, err := c.client.Apps(t.Context(), rpc.AppsRequest{Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	memory := map[string]int64{}
	for _, a := range ended.Apps {
		if a.Name == "two sizes" {
			for _, x := range c.describe(t, a.ID).Executors {
				memory[fmt.Sprint(x.ID)] = x.MemoryMiB
			}
		}
	}
	for text, want := range map[string]int64{"a piece is counted": 64, "a part is added up": 96} {
		for _, id := range e.executors(t, text) {
			if memory[id] != want {
				t.Errorf("%q on executor %s with %d MiB, want %d", text, id, memory[id], want)
			}
		}
	}
}

// executors are those that lines of the log with a text in them name.
func (e *example) executors(t *testing.T, text string) (out []string) {
	t.Helper()
	for line := range strings.Lines(readText(t, e.log)) {
		if _, id, ok := strings.Cut(line, " executor="); ok && strings.Contains(line, text) {
			out = append(out, strings.TrimSpace(id))
		}
	}
	if len(out) == 0 {
		t.Errorf("no line with %q names an executor", text)
	}
	return out
}

// wantCounts compares what wordcount has printed.
func wantCounts(t *testing.T, r result, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for line := range strings.Lines(r.stdout) {
		fields := strings.Fields(line)
		n, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 2 {
			t.Fatalf("line %q: %v", line, err)
		}
		got[fields[1]] += n
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d words, want %d", len(got), len(want))
		for _, w := range slices.Sorted(maps.Keys(want)) {
			if got[w] != want[w] {
				t.Errorf("%s: %d, want %d", w, got[w], want[w])
				break
			}
		}
	}
}
