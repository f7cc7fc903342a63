package executor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func TestConfigFromEnvReportsEveryProblem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := map[string]string{
		"HEARTH_APP_ID": "app-20261130061500-0003", "HEARTH_EXECUTOR_ID": "4", "HEARTH_CORES": "2",
		"HEARTH_MEMORY_MIB": "512", "HEARTH_DRIVER_ADDR": "h:1", "HEARTH_SECRET_FILE": file("secret", "s\n"),
		"HEARTH_WORKER_ID": "w", "HEARTH_DRIVER_CERT": strings.Repeat("a", 64),
	}
	for _, tc := range []struct {
		name   string
		change map[string]string
		want   []string // parts of the error; none = no error
	}{
		{"a complete environment is taken", nil, nil},
		{"missing variables are all named", map[string]string{"HEARTH_APP_ID": "", "HEARTH_CORES": "", "HEARTH_SECRET_FILE": ""}, []string{"HEARTH_APP_ID is not set", "HEARTH_CORES is not set", "HEARTH_SECRET_FILE is not set"}},
		{"numbers out of range are named", map[string]string{"HEARTH_EXECUTOR_ID": "-1", "HEARTH_CORES": "many"}, []string{`HEARTH_EXECUTOR_ID="-1"`, `HEARTH_CORES="many"`}},
		{"an id that is none is refused", map[string]string{"HEARTH_APP_ID": "web"}, []string{`application id "web"`}},
		{"an address without a port is refused", map[string]string{"HEARTH_DRIVER_ADDR": "h"}, []string{`driver address "h"`}},
		{"an empty secret is refused", map[string]string{"HEARTH_SECRET_FILE": file("empty", "\n")}, []string{"the file is empty"}},
		{"a secret that is too long is refused", map[string]string{"HEARTH_SECRET_FILE": file("long", strings.Repeat("x", MaxSecretBytes+1))}, []string{"too large"}},
		{"a missing secret is named", map[string]string{"HEARTH_SECRET_FILE": filepath.Join(dir, "none")}, []string{"no such file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			for k, v := range good {
				if c, ok := tc.change[k]; ok {
					v = c
				}
				env = append(env, k+"="+v)
			}
			cfg, err := ConfigFromEnv(env)
			if len(tc.want) == 0 {
				if err != nil || cfg.Secret != "s" || cfg.Executor != 4 || cfg.Cores != 2 || cfg.MemoryMiB != 512 || !cfg.OwnsProcess {
					t.Errorf("got %+v, %v", cfg, err)
				}
				return
			}
			if !errors.Is(err, model.ErrInvalid) {
				t.Fatalf("error %v, want one that wraps ErrInvalid", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

// unsent returns the results that are to be sent, message by message.
func unsent(t *testing.T, r *registry) (out [][]model.TaskResult) {
	t.Helper()
	var f rpc.Frames
	r.unsent(&f)
	msgs, err := f.Up()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		out = append(out, m.Results)
	}
	return out
}

func TestAnExecutorHoldsABoundedNumberOfTasks(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var r *registry
	r = newRegistry(func(h *heldTask) {
		<-release
		r.finish(h, model.TaskResult{Outcome: model.TaskDone}, [2]*capture{})
	}, func(*capture) {})
	r.calls.slots = MaxHeldTasks
	tasks := func(from, n int) []model.ExecTask {
		var out []model.ExecTask
		for i := range n {
			out = append(out, model.ExecTask{ID: model.TaskID(from + i), Attempt: 1})
		}
		return out
	}
	if err := r.add(tasks(1, MaxHeldTasks+1)); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(unsent(t, r)...)
	if len(got) != 1 || got[0].ID != MaxHeldTasks+1 || got[0].Outcome != model.TaskNotRun || got[0].Error == "" {
		t.Errorf("one task above the limit gives %+v, want one NOT_RUN with a reason", got)
	}
	if err := r.add(tasks(MaxHeldTasks+2, MaxHeldTasks)); !errors.Is(err, errTooMany) {
		t.Errorf("error %v, want errTooMany", err)
	}
	close(release)
	<-r.close()
}

func TestABatchOfResultsIsBounded(t *testing.T) {
	t.Parallel()
	done := make(chan struct{}, 8)
	var r *registry
	r = newRegistry(func(h *heldTask) {
		r.finish(h, model.TaskResult{Stdout: make([]byte, 2*maxFrameBytes/3)}, [2]*capture{})
		done <- struct{}{}
	}, func(*capture) {})
	r.calls.slots = 1
	for i := range 5 {
		if err := r.add([]model.ExecTask{{ID: model.TaskID(i + 1), Attempt: 1}}); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	var sizes []int
	for len(sizes) == 0 || sizes[len(sizes)-1] != 1 {
		<-r.ready
		for _, batch := range unsent(t, r) {
			sizes = append(sizes, len(batch))
		}
	}
	if diff := cmp.Diff([]int{2, 2, 1}, sizes); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	<-r.close()
}

func TestACaptureKeepsTheHeadAndSpillsTheWhole(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, model.MaxTaskOutput, model.MaxTaskOutput + 1, 3*model.MaxTaskOutput + 7} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			t.Parallel()
			c := &capture{path: filepath.Join(t.TempDir(), "spill")}
			whole := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			for rest := whole; len(rest) > 0; {
				n := min(len(rest), 10007)
				if _, err := c.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			_, statErr := os.Stat(c.path)
			if spilled := statErr == nil; spilled != (size > model.MaxTaskOutput) {
				t.Errorf("spilled: %v", spilled)
			}
			var got []byte
			for {
				b, err := c.readAt(int64(len(got)), 100_000)
				if err != nil {
					t.Fatal(err)
				}
				if len(b) == 0 {
					break
				}
				got = append(got, b...)
			}
			if !bytes.Equal(got, whole) || c.total != int64(size) || !bytes.Equal(c.head, whole[:min(size, model.MaxTaskOutput)]) {
				t.Errorf("kept %d bytes, head %d, total %d of %d", len(got), len(c.head), c.total, size)
			}
			for range 2 {
				if err := c.discard(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOutputThatCannotBeSpilledIsCountedAndTold(t *testing.T) {
	t.Parallel()
	c := &capture{path: filepath.Join(t.TempDir(), "none", "spill")}
	for range 3 {
		if n, err := c.Write(make([]byte, model.MaxTaskOutput)); n != model.MaxTaskOutput || err != nil {
			t.Fatalf("write took %d, %v; a task must never be blocked", n, err)
		}
	}
	if c.total != 3*model.MaxTaskOutput || len(c.head) != model.MaxTaskOutput || c.err == nil {
		t.Errorf("total %d, head %d, err %v", c.total, len(c.head), c.err)
	}
	if _, err := c.readAt(model.MaxTaskOutput, 1); err == nil {
		t.Error("reading what was lost gives no error")
	}
	if b, err := c.readAt(5, 10); err != nil || len(b) != 10 {
		t.Errorf("reading the head gives %d bytes, %v", len(b), err)
	}
}

func TestProcessStatesAreRead(t *testing.T) {
	t.Parallel()
	st, err := readStat(os.Getpid())
	if err != nil || st.pid != os.Getpid() || st.ppid != os.Getppid() || st.start == 0 || st.zombie() {
		t.Errorf("own state: %+v, %v", st, err)
	}
	line := "12 (a) b (c)) Z 1 2 3 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0"
	got, err := parseStat([]byte(line))
	want := procStat{pid: 12, ppid: 1, pgid: 2, sid: 3, state: 'Z', start: 987}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "12", "12 (", "12 (a", "x (a) S 1 2 3", "12 (a) S 1 2 3", strings.Replace(line, "987", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) b (c)) Z 1 2 3 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0"))
	f.Add([]byte("1 () S"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, err := parseStat(b); err == nil && st.state == 0 {
			t.Errorf("a state without a letter from %q", b)
		}
	})
}

// A task's files come from outside: whatever their names, nothing is written
// outside the directory.
func FuzzFileNames(f *testing.F) {
	for _, name := range []string{"a", "a/b", "../a", "/a", "a/../../b", "link/x", "", ".", "a\x00b", "..", "link/../../x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		base := t.TempDir()
		dir := filepath.Join(base, "task")
		outside := filepath.Join(base, "outside")
		for _, d := range []string{dir, outside} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		_ = writeFiles(dir, []model.File{{Name: name, Data: []byte("x")}})
		for d, want := range map[string]int{base: 2, outside: 0} {
			if entries, _ := os.ReadDir(d); len(entries) != want {
				t.Errorf("name %q: %s has %d entries, want %d", name, filepath.Base(d), len(entries), want)
			}
		}
	})
}

func everyResultIsHeld(r *registry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := 0
	for t := r.results.head; t != nil; t = t.next {
		if r.held.Get(t.spec.ID) != t || !t.over {
			return false
		}
		if !t.sent {
			waiting++
		}
	}
	return waiting == r.results.waiting
}

// What a driver sends is not trusted to be sensible: any sequence leaves the
// registry consistent.
func FuzzDriverMessages(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1})
	f.Add([]byte{0, 1, 16, 1, 4, 0, 0, 2, 4, 2, 1, 2, 3, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), 200)]
		var r *registry
		r = newRegistry(func(h *heldTask) {
			if h.spec.ID%2 == 0 {
				<-h.stop
			}
			r.finish(h, model.TaskResult{Outcome: model.TaskDone}, [2]*capture{})
		}, func(*capture) {})
		r.calls.slots, r.calls.grace = 2, time.Hour
		r.calls.run = func(h *heldTask, res *model.TaskResult) {
			if h.spec.ID == 7 {
				<-h.ctx.Done()
			}
			*res = model.TaskResult{Outcome: model.TaskDone}
		}
		for i := 0; i+1 < len(b); i += 2 {
			id := model.TaskID(b[i+1] % 8)
			switch b[i] % 5 {
			case 0:
				spec := model.ExecTask{ID: id, Attempt: int(b[i] / 5)}
				if id >= 4 {
					spec.Function = "f"
				}
				if err := r.add([]model.ExecTask{spec}); err != nil {
					t.Fatal(err)
				}
			case 1:
				r.cancel([]model.TaskID{id})
			case 2:
				r.ack([]model.TaskID{id})
			case 3:
				r.fetch(model.OutputFetch{ID: id, Offset: int64(b[i]) - 100, Limit: int(b[i])})
			case 4:
				r.adopt(&model.ExecutorWelcome{Adopted: []model.TaskID{id}}, 2)
			}
			unsent(t, r)
			if !everyResultIsHeld(r) {
				t.Fatal("a result that is to be sent is not held")
			}
		}
		<-r.close()
		if r.held.Len() != 0 || r.results.head != nil || r.results.waiting != 0 {
			t.Errorf("%d tasks and %d results are held after the end", r.held.Len(), r.results.waiting)
		}
	})
}
