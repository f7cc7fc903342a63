package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheTimeLineShowsMillisecondsSinceItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out)
		tl.say("start")
		time.Sleep(1234 * time.Millisecond)
		tl.say("kill -9 of %s", "master-1")
		tl.at(time.Now().Add(-34*time.Millisecond), "noticed late")
		tl.plain("demo: OK")
		want := "    0 ms  start\n" +
			" 1234 ms  kill -9 of master-1\n" +
			" 1200 ms  noticed late\n" +
			"demo: OK\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsLeftRunningIsDescribedInAFixedShape(t *testing.T) {
	c := Cluster{
		Masters: []Master{{ID: "m", PID: 1, GRPC: "h:1", Raft: "h:2", Serf: "h:3", HTTP: "h:4", Leader: true}},
		Workers: []Worker{{ID: "w", PID: 2, GRPC: "h:5", Serf: "h:6", HTTP: "h:7"}},
		Env:     map[string]string{"HEARTH_MASTERS": "h:1"},
	}
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"masters":[{"id":"m","pid":1,"grpc":"h:1","raft":"h:2","serf":"h:3","http":"h:4","leader":true}],` +
		`"workers":[{"id":"w","pid":2,"grpc":"h:5","serf":"h:6","http":"h:7"}],` +
		`"env":{"HEARTH_MASTERS":"h:1"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImpossibleDemonstrationsAreRefused(t *testing.T) {
	good := Config{Masters: DefaultMasters, Workers: DefaultWorkers, WorkerCores: DefaultWorkerCores, WorkerMemory: DefaultWorkerMemory}
	if err := good.Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	small := good
	small.Keep, small.NoJob, small.Masters, small.Workers, small.WorkerMemory = true, true, 1, 1, "1m"
	if err := small.Validate(); err != nil {
		t.Errorf("one of each without a job: %v", err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"one master cannot lose its leader", func(c *Config) { c.Masters = 1 }, "--masters 1"},
		{"ten masters are too many", func(c *Config) { c.Masters = 10 }, "--masters 10"},
		{"one worker has no other to replace it", func(c *Config) { c.Workers = 1 }, "--workers 1"},
		{"a worker offers something", func(c *Config) { c.WorkerCores = 0 }, "--worker-cores 0"},
		{"memory is a size", func(c *Config) { c.WorkerMemory = "much" }, "--worker-memory"},
		{"an executor needs its memory", func(c *Config) { c.WorkerMemory = "100m" }, "512 MiB"},
		{"a cluster without a job is for keeping", func(c *Config) { c.NoJob = true }, "--keep"},
		{"input is for a job", func(c *Config) { c.NoJob, c.Keep, c.Input = true, true, "/" }, "--input"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good
			tc.change(&c)
			err := c.Validate()
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one of usage with %q", err, tc.want)
			}
		})
	}
}

func TestAnyNumberOfFilesMakesEnoughTasks(t *testing.T) {
	for _, n := range []int{1, 2, 7, minTasks - 1, minTasks, minTasks + 1, 11_000} {
		tasks, passes := split(n)
		times := make([]int, n)
		for _, task := range tasks {
			if len(task) == 0 || len(task) > maxFilesPerTask {
				t.Errorf("%d files: a task has %d of them", n, len(task))
			}
			for _, f := range task {
				times[f]++
			}
		}
		if len(tasks) < minTasks {
			t.Errorf("%d files: got %d tasks, want at least %d", n, len(tasks), minTasks)
		}
		for f, got := range times {
			if got != passes {
				t.Fatalf("%d files: file %d is counted %d times, want %d", n, f, got, passes)
			}
		}
	}
}

func TestEveryDifferenceIsFound(t *testing.T) {
	in := &input{files: []string{"a", "b"}, tasks: [][]int{{0, 1}, {0}, {1}}, passes: 2}
	a, b := Counts{Lines: 1, Words: 2, Bytes: 3}, Counts{Words: 1, Bytes: 4}
	want := []Counts{a, b}
	total, err := compare(in, [][]Counts{{a, b}, {a}, {b}}, want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Counts{Lines: 1, Words: 3, Bytes: 7}, total); diff != "" {
		t.Errorf("total (-want +got):\n%s", diff)
	}
	if _, err := compare(in, [][]Counts{{a, b}, {a}, {a}}, want); err == nil {
		t.Error("a wrong count in the last task was accepted")
	}
	in.tasks = in.tasks[:2]
	if _, err := compare(in, [][]Counts{{a, b}, {a}}, want); err == nil {
		t.Error("a file that was counted too seldom was accepted")
	}
}

func TestKillsWithoutConsequencesAreAFailure(t *testing.T) {
	for _, tc := range []struct {
		name string
		out  outcome
		ok   bool
	}{
		{"no executor was replaced", outcome{reruns: 1}, false},
		{"no task was run again", outcome{replaced: 1}, false},
		{"both happened", outcome{replaced: 1, reruns: 1}, true},
	} {
		if err := judge(&tc.out); (err == nil) != tc.ok {
			t.Errorf("%s: got error %v", tc.name, err)
		}
	}
}

func TestTheJobLeavesRoomForALostWorker(t *testing.T) {
	for _, tc := range []struct {
		name                          string
		workers, workerCores, machine int
		want                          int
	}{
		{"a small machine is kept busy", 3, 4, 2, 4},
		{"each worker has an executor", 5, 4, 1, 5},
		{"a large machine cannot be filled", 3, 4, 64, 8},
		{"the smallest cluster keeps one worker free", 2, 1, 8, 1},
	} {
		c := Config{Workers: tc.workers, WorkerCores: tc.workerCores}
		if got := c.cores(tc.machine); got != tc.want {
			t.Errorf("%s: got %d cores, want %d", tc.name, got, tc.want)
		}
	}
}

func TestInputIsFoundOrTheHintIsGiven(t *testing.T) {
	dir := t.TempDir()
	if _, err := findInput(t.Context(), dir, nil); !errors.Is(err, ErrUsage) {
		t.Errorf("an empty tree: got error %v, want one of usage", err)
	}
	if _, err := findInput(t.Context(), filepath.Join(dir, "missing"), nil); !errors.Is(err, ErrUsage) {
		t.Errorf("a missing tree: got error %v, want one of usage", err)
	}
	_, err := findInput(t.Context(), "", []string{"PATH=" + dir})
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "--input DIR") {
		t.Errorf("without Go: got error %v, want the hint", err)
	}

	for _, name := range []string{"src/a.go", "src/b.txt", "c.go"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.go", filepath.Join(dir, "src/link.go")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		dir  string
		env  []string
		want int
	}{
		{"all regular files of a tree", dir, nil, 3},
		{"only .go files of the distribution", "", []string{"GOROOT=" + dir}, 2},
	} {
		in, err := findInput(t.Context(), tc.dir, tc.env)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if len(in.files) != tc.want {
			t.Errorf("%s: got %q, want %d files", tc.name, in.files, tc.want)
		}
		counts, err := in.expected(t.Context())
		if err != nil || counts[0] != (Counts{Lines: 1, Words: 1, Bytes: 2}) {
			t.Errorf("%s: got counts %v and error %v", tc.name, counts, err)
		}
	}
}
