package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestHelloNamesTheExecutor(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "")
	s := h.session(nil)
	host, _ := os.Hostname()
	want := model.ExecutorHello{App: p.app, Executor: 3, Secret: "sesame", Cores: 2, Host: host, PID: p.cmd.Process.Pid, Holds: MaxHeldTasks, Queues: true}
	if diff := cmp.Diff(want, s.hello); diff != "" {
		t.Errorf("hello (-want +got):\n%s", diff)
	}
	for want := range uint64(3) {
		select {
		case got := <-s.beats:
			if got != want+1 {
				t.Errorf("beat %d, want %d", got, want+1)
			}
		case <-time.After(patience):
			t.Fatal("no beat came")
		}
	}
}

func TestARefusalEndsTheExecutorAtOnce(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{model.ErrUnauthenticated, model.ErrRefused, model.ErrNotFound, model.ErrEnded} {
		t.Run(refusal.Error(), func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.refuse = func(model.ExecutorHello) error { return fmt.Errorf("executor 3: %w", refusal) }
			p := startExecutor(t, h, "driver=1h")
			if code := p.exit(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(p.stderr.String(), refusal.Error()) {
				t.Errorf("the reason is not told:\n%s", p.stderr.String())
			}
		})
	}
}

// A driver whose masters are all down cannot know its youngest executors; it
// keeps them waiting, far longer than an executor lives without its driver.
func TestHA32AnExecutorWaitsForAWelcomeAsLongAsItsDriverBeats(t *testing.T) {
	t.Parallel()
	const driverTimeout = time.Second
	h := newHub(t)
	h.deaf = true
	p := startExecutor(t, h, "driver="+driverTimeout.String()+",silence=500ms")
	s := <-h.accepted
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for enough := time.After(3 * driverTimeout); enough != nil; {
		select {
		case <-tick.C:
			s.send(model.ExecutorDown{BeatAck: &model.Beat{}})
		case <-s.ended:
			t.Fatal("the executor has given the stream up")
		case <-p.exited:
			t.Fatal("the executor has ended")
		case <-enough:
			enough = nil
		}
	}
	s.send(model.ExecutorDown{Welcome: &model.ExecutorWelcome{BeatMilli: 100}})
	s.shell(1, "echo done")
	if r := s.result(); string(r.Stdout) != "done\n" {
		t.Errorf("result %+v", r)
	}
	// Without beats it does not wait.
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

func TestResultsAreRepeatedUntilAcknowledged(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startExecutor(t, h, "")
	s := h.session(nil)
	s.shell(1, "echo one")
	s.shell(2, "echo two")
	first := s.results(2)
	s.send(model.ExecutorDown{Ack: []model.TaskID{1}})
	s.fetch(model.OutputFetch{ID: 1}) // answered after the acknowledgement was read
	s.finish <- errors.New("the stream breaks")

	s = h.session(nil)
	if diff := cmp.Diff([]model.TaskID{2}, s.hello.Running); diff != "" {
		t.Errorf("the executor holds (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first[1], s.result()); diff != "" {
		t.Errorf("the repeated result (-first +second):\n%s", diff)
	}
	s.finish <- nil

	s = h.session([]model.TaskID{})
	s.shell(3, "echo three")
	if got := s.result(); got.ID != 3 {
		t.Errorf("a result that the driver does not want was sent again: %+v", got)
	}
}

func TestTasksRunOnWhileTheDriverIsAway(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "")
	s := h.session(nil)
	file := filepath.Join(p.dir, "go")
	s.shell(1, "while [ ! -e "+file+" ]; do sleep 0.01; done; echo one")
	s.shell(2, "echo $$ > "+p.dir+"/two; sleep 1000")
	unwanted := pidFile(t, filepath.Join(p.dir, "two"))
	h.stop()
	addr := h.addr
	<-s.ended
	h.serve(addr)

	s = h.session([]model.TaskID{1})
	if diff := cmp.Diff([]model.TaskID{1, 2}, s.hello.Running); diff != "" {
		t.Errorf("the executor holds (-want +got):\n%s", diff)
	}
	eventually(t, "the task that the driver no longer wants ends", func() error {
		if alive(unwanted) {
			return os.ErrExist
		}
		return nil
	})
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.result(); got.ID != 1 || string(got.Stdout) != "one\n" {
		t.Errorf("result %+v, want task 1", got)
	}
}

func TestARepeatedAttemptRunsOnceAndALaterOneReplacesIt(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := startExecutor(t, h, "")
	s := h.session(nil)
	log := filepath.Join(p.dir, "log")
	task := shellTask(1, "echo first >> "+log+"; sleep 1000")
	s.tasks(task, task)
	eventually(t, "the first attempt runs", func() error {
		b, err := os.ReadFile(log)
		if err == nil && len(b) == 0 {
			err = errors.New("the shell has opened the file and not yet written")
		}
		return err
	})
	again := shellTask(1, "echo second >> "+log)
	again.Attempt = 2
	s.tasks(again)
	if got := s.result(); got.Attempt != 2 || got.Outcome != model.TaskDone {
		t.Errorf("result %+v, want attempt 2 DONE", got)
	}
	s.tasks(again) // its result is repeated
	if got := s.result(); got.Attempt != 2 {
		t.Errorf("result %+v, want attempt 2 again", got)
	}
	b, _ := os.ReadFile(log)
	if diff := cmp.Diff("first\nsecond\n", string(b)); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

func TestASilentDriverIsDialledAgain(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.deaf = true
	p := startExecutor(t, h, "silence=300ms")
	first := h.session(nil)
	first.shell(1, "sleep 1000")
	second := h.session(nil)
	if diff := cmp.Diff([]model.TaskID{1}, second.hello.Running); diff != "" {
		t.Errorf("the executor holds (-want +got):\n%s", diff)
	}
	second.send(model.ExecutorDown{Stop: true})
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// Each way to end kills the tasks first, asks them politely, and leaves no
// process.
func TestTheEndKillsEverything(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		timings string
		end     func(*hub, *hubSession, *execProcess)
		code    int
		says    string
		polite  bool
	}{
		{"Stop ends with 0", "", func(_ *hub, s *hubSession, _ *execProcess) { s.send(model.ExecutorDown{Stop: true}) }, 0, "", true},
		{"SIGTERM ends with 0", "", func(_ *hub, _ *hubSession, p *execProcess) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, 0, "", true},
		{"a driver that is gone ends with 1", "driver=500ms", func(h *hub, _ *hubSession, _ *execProcess) { h.stop() }, 1, "the driver is gone: not a word for 500ms", true},
		{"kill -9 takes the tasks along", "", func(_ *hub, _ *hubSession, p *execProcess) { _ = p.cmd.Process.Kill() }, -1, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			p := startExecutor(t, h, tc.timings)
			s := h.session(nil)
			s.shell(1, "trap 'echo bye > "+p.dir+"/bye; exit' TERM; echo $$ > "+p.dir+"/pid; while :; do sleep 0.01; done")
			pid := pidFile(t, filepath.Join(p.dir, "pid"))
			tc.end(h, s, p)
			if code := p.exit(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.Contains(p.stderr.String(), tc.says) {
				t.Errorf("stderr does not say %q:\n%s", tc.says, p.stderr.String())
			}
			eventually(t, "the task ends", func() error {
				if alive(pid) {
					return os.ErrExist
				}
				return nil
			})
			if _, err := os.Stat(filepath.Join(p.dir, "bye")); tc.polite != (err == nil) {
				t.Errorf("the task was asked first: %v, want %v", err == nil, tc.polite)
			}
			if left, _ := os.ReadDir(filepath.Join(p.dir, tasksDir)); tc.polite && len(left) > 0 {
				t.Errorf("task directories are left: %v", left)
			}
		})
	}
}

func TestADriverThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.stop()
	p := startExecutor(t, h, "driver=300ms")
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

func TestManySmallTasks(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startExecutor(t, h, "")
	s := h.session(nil)
	const n = 300
	var tasks []model.ExecTask
	for i := range n {
		tasks = append(tasks, model.ExecTask{ID: model.TaskID(i + 1), Attempt: 1, Argv: []string{"echo", itoa(i)}})
	}
	s.tasks(tasks...)
	for i, r := range s.results(n) {
		if r.ID != model.TaskID(i+1) || r.Outcome != model.TaskDone || string(r.Stdout) != itoa(i)+"\n" {
			t.Fatalf("result %+v, want %d DONE with its number", r, i+1)
		}
	}
}
