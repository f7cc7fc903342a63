package executor

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hearthd/hearth/model"
)

var ignoreRuntime = cmpopts.IgnoreFields(model.TaskResult{}, "RuntimeMicro")

func TestOneExecutorRunsTasks(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "")
	s := h.session(nil)
	missing := filepath.Join(p.dir, "missing")
	elsewhere := t.TempDir()

	for i, tc := range []struct {
		name string
		task model.ExecTask
		want model.TaskResult
	}{
		{
			"both streams and the exit code come back",
			model.ExecTask{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			model.TaskResult{Outcome: model.TaskDone, ExitCode: 3, Stdout: []byte("out\n"), Stderr: []byte("err\n"), StdoutBytes: 4, StderrBytes: 4},
		},
		{
			"a process that a signal ended says which",
			model.ExecTask{Argv: []string{"sh", "-c", "kill -9 $$"}},
			model.TaskResult{Outcome: model.TaskDone, ExitCode: -1, Signal: 9},
		},
		{
			"files come first, with their modes, and the directory is fresh",
			model.ExecTask{
				Argv:  []string{"sh", "-c", "./sub/go; ls; cat plain"},
				Files: []model.File{{Name: "sub/go", Mode: 0o755, Data: []byte("#!/bin/sh\necho gone\n")}, {Name: "plain", Data: []byte("text\n")}},
			},
			model.TaskResult{Outcome: model.TaskDone, Stdout: []byte("gone\nplain\nsub\ntext\n"), StdoutBytes: 20},
		},
		{
			"a file's name cannot lead out of the directory",
			model.ExecTask{Argv: []string{"true"}, Files: []model.File{{Name: "../x", Data: []byte("x")}}},
			model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: `write file "../x": mkdirat ..: path escapes from parent`},
		},
		{
			"a directory that is given is used and stays",
			model.ExecTask{Argv: []string{"sh", "-c", "pwd; echo kept > kept"}, Dir: elsewhere},
			model.TaskResult{Outcome: model.TaskDone, Stdout: []byte(elsewhere + "\n"), StdoutBytes: int64(len(elsewhere) + 1)},
		},
		{
			"a directory that does not exist is told",
			model.ExecTask{Argv: []string{"true"}, Dir: missing},
			model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: "working directory: stat " + missing + ": no such file or directory"},
		},
		{
			"a program that does not exist is told",
			model.ExecTask{Argv: []string{"no-such-program"}, Env: []string{"PATH=/bin"}},
			model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: `program "no-such-program": not found in PATH "/bin"`},
		},
		{
			"a file that is no program is told",
			model.ExecTask{Argv: []string{"./text"}, Files: []model.File{{Name: "text", Mode: 0o644}}},
			model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: "start the process: fork/exec ./text: permission denied"},
		},
		{
			"a task without a program is told",
			model.ExecTask{},
			model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: "invalid: the task has no program"},
		},
		{
			"standard input is empty",
			model.ExecTask{Argv: []string{"cat"}},
			model.TaskResult{Outcome: model.TaskDone},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.task.ID, tc.task.Attempt = model.TaskID(i+1), 2
			tc.want.ID, tc.want.Attempt, tc.want.Executor = tc.task.ID, 2, 3
			s.tasks(tc.task)
			got := s.result()
			if diff := cmp.Diff(tc.want, got, ignoreRuntime, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			s.send(model.ExecutorDown{Ack: []model.TaskID{tc.task.ID}})
		})
	}
	if left, _ := os.ReadDir(filepath.Join(p.dir, tasksDir)); len(left) > 0 {
		t.Errorf("task directories are left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "kept")); err != nil {
		t.Errorf("the given directory was not kept: %v", err)
	}
	s.send(model.ExecutorDown{Stop: true})
	if code := p.exit(); code != 0 {
		t.Errorf("after Stop the exit code is %d, want 0", code)
	}
}

func TestTasksGetASmallEnvironment(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "", "LANG=C", "HEARTH_TOKEN=x", "HEARTH_LOG_URL=http://x")
	s := h.session(nil)
	task := shellTask(7, "env")
	task.Env = []string{"MINE=1", "LANG=de"}
	s.tasks(task)
	var got []string
	for kv := range strings.SplitSeq(strings.TrimSpace(string(s.result().Stdout)), "\n") {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains([]string{"PATH", "PWD", "HEARTH_DRIVER_ADDR", "_", "SHLVL", "OLDPWD", asExecutor}, name) {
			got = append(got, kv)
		}
	}
	slices.Sort(got)
	want := []string{
		"HEARTH_APP_ID=" + string(p.app), "HEARTH_CORES=2", "HEARTH_EXECUTOR_ID=3", "HEARTH_LOG_URL=http://x",
		"HEARTH_MEMORY_MIB=512", "HEARTH_TASK_ATTEMPT=1", "HEARTH_TASK_ID=7", "HEARTH_WORKER_ID=w1",
		"HOME=/home/of/executor", "LANG=de", "MINE=1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestATimeoutKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "killGrace=100ms")
	s := h.session(nil)
	polite, stubborn := shellTask(1, "sleep 1000"), shellTask(2, "trap '' TERM; sleep 1000 & echo $! > "+p.dir+"/child; wait; sleep 1000")
	polite.TimeoutMilli, stubborn.TimeoutMilli = 50, 300
	s.tasks(polite, stubborn)
	child := pidFile(t, filepath.Join(p.dir, "child"))
	want := []model.TaskResult{
		{ID: 1, Attempt: 1, Outcome: model.TaskTimedOut, ExitCode: -1, Signal: 15, Executor: 3},
		{ID: 2, Attempt: 1, Outcome: model.TaskTimedOut, ExitCode: -1, Signal: 9, Executor: 3},
	}
	got := s.results(2)
	if diff := cmp.Diff(want, got, ignoreRuntime, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if alive(child) {
		t.Error("the child of a timed out task lives on")
	}
}

func TestCancelKillsRunningTasksOnly(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startExecutor(t, h, "")
	s := h.session(nil)
	s.shell(1, "sleep 1000")
	s.shell(2, "echo done")
	first := s.result()
	if first.ID != 2 || first.Outcome != model.TaskDone {
		t.Fatalf("the first result is %+v, want task 2 DONE", first)
	}
	s.send(model.ExecutorDown{Cancel: []model.TaskID{1, 2, 99}})
	got := s.result()
	want := model.TaskResult{ID: 1, Attempt: 1, Outcome: model.TaskKilled, ExitCode: -1, Signal: 15, Executor: 3}
	if diff := cmp.Diff(want, got, ignoreRuntime, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestLargeOutputIsSpilledAndFetched(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "")
	s := h.session(nil)
	s.shell(1, "i=0; while [ $i -lt 20000 ]; do echo line $i of a long output that goes on and on; i=$((i+1)); done; echo small >&2")
	var whole bytes.Buffer
	for i := range 20000 {
		whole.WriteString("line " + itoa(i) + " of a long output that goes on and on\n")
	}
	res := s.result()
	if len(res.Stdout) != model.MaxTaskOutput || !bytes.HasPrefix(whole.Bytes(), res.Stdout) {
		t.Errorf("the result carries %d bytes of stdout, want the first %d", len(res.Stdout), model.MaxTaskOutput)
	}
	if res.StdoutBytes != int64(whole.Len()) || string(res.Stderr) != "small\n" {
		t.Errorf("stdout %d bytes, stderr %q; want %d and small", res.StdoutBytes, res.Stderr, whole.Len())
	}
	var got []byte
	for {
		c := s.fetch(model.OutputFetch{ID: 1, Offset: int64(len(got)), Limit: 1 << 30})
		if c.Error != "" || len(c.Data) > MaxChunkBytes || c.Offset != int64(len(got)) {
			t.Fatalf("chunk of %d bytes at %d, error %q", len(c.Data), c.Offset, c.Error)
		}
		if len(c.Data) == 0 {
			break
		}
		got = append(got, c.Data...)
	}
	if !bytes.Equal(got, whole.Bytes()) {
		t.Errorf("fetched %d bytes that differ from the %d written", len(got), whole.Len())
	}
	if c := s.fetch(model.OutputFetch{ID: 1, Stderr: true, Limit: 3}); string(c.Data) != "sma" {
		t.Errorf("a piece of stderr is %q, want sma", c.Data)
	}
	if c := s.fetch(model.OutputFetch{ID: 1, Offset: -1}); c.Error == "" {
		t.Error("a negative offset has no error")
	}
	s.send(model.ExecutorDown{Ack: []model.TaskID{1}})
	if c := s.fetch(model.OutputFetch{ID: 1}); c.Error == "" {
		t.Error("output can be fetched after its result was acknowledged")
	}
	if left, _ := os.ReadDir(filepath.Join(p.dir, outputDir)); len(left) > 0 {
		t.Errorf("spilled output is left: %v", left)
	}
}

// What a task leaves behind is killed when it ends, however it tried to get
// away, and nothing of its neighbour is touched.
func TestWhatATaskLeavesBehindIsKilled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, script string }{
		{"a background child", "sleep 1000 & echo $! > $OUT"},
		{"an orphan in a session of its own", "(setsid sh -c 'echo $$ > $OUT; exec sleep 1000' &) ; while [ ! -s $OUT ]; do sleep 0.01; done"},
		{"an orphan without an environment", "(sh -c 'echo $$ > $OUT; exec env -i sleep 1000' &) ; while [ ! -s $OUT ]; do sleep 0.01; done"},
		{
			"a child without a name below an orphan with one",
			"(setsid sh -c 'setsid env -i sh -c \"echo \\$\\$ > '$OUT'; exec sleep 1000\" & wait' &) ; while [ ! -s $OUT ]; do sleep 0.01; done",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			p := startExecutor(t, h, "sweep=1h")
			s := h.session(nil)
			s.shell(1, "(setsid sh -c 'echo $$ > "+p.dir+"/neighbour; exec sleep 1000' &); sleep 1000")
			neighbour := pidFile(t, filepath.Join(p.dir, "neighbour"))
			out := filepath.Join(p.dir, "pid")
			task := shellTask(2, tc.script)
			task.Env = []string{"OUT=" + out}
			s.tasks(task)
			if res := s.result(); res.ID != 2 || res.Outcome != model.TaskDone || res.ExitCode != 0 {
				t.Fatalf("result %+v, want task 2 DONE", res)
			}
			if pid := pidFile(t, out); alive(pid) {
				t.Errorf("process %d outlived its task", pid)
			}
			if !alive(neighbour) {
				t.Error("an orphan of another task was killed")
			}
		})
	}
}

func TestAnOrphanThatNobodyKnowsIsKilledWhenNoTaskRuns(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "sweep=10ms")
	s := h.session(nil)
	out := filepath.Join(p.dir, "pid")
	s.shell(1, "(setsid env -i sh -c 'echo $$ > "+out+"; exec sleep 1000' &) ; while [ ! -s "+out+" ]; do sleep 0.01; done")
	s.result()
	pid := pidFile(t, out)
	eventually(t, "the orphan ends", func() error {
		if alive(pid) {
			return os.ErrExist
		}
		return nil
	})
}

func itoa(i int) string { return string(appendInt(nil, i)) }

func appendInt(b []byte, i int) []byte {
	if i >= 10 {
		b = appendInt(b, i/10)
	}
	return append(b, byte('0'+i%10))
}
