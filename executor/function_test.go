package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// startFunctions runs an executor in this process.
func startFunctions(t *testing.T, cores int, functions map[string]Function) *hubSession {
	t.Helper()
	h := newHub(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	tm := defaultTiming()
	tm.killGrace = 50 * time.Millisecond
	cfg := Config{
		App: uniqueApp(), DriverAddr: h.addr, Secret: "sesame", Cores: cores, WorkDir: t.TempDir(),
		Functions: functions, timing: tm,
	}
	go func() { ended <- Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("executor: %v", err)
		}
	})
	return h.session(nil)
}

func callTask(id model.TaskID, name string, arg []byte) model.ExecTask {
	return model.ExecTask{ID: id, Attempt: 1, Function: name, Argument: arg}
}

func TestAFunctionReturnsItsValueOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	s := startFunctions(t, 2, map[string]Function{
		"upper": func(_ context.Context, arg []byte) ([]byte, error) { return []byte(strings.ToUpper(string(arg))), nil },
		"fail":  func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no luck") },
		"panic": func(context.Context, []byte) ([]byte, error) { panic("ouch") },
		"exit":  func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"large": func(context.Context, []byte) ([]byte, error) { return make([]byte, model.MaxTaskValue+1), nil },
		"limit": func(context.Context, []byte) ([]byte, error) { return make([]byte, model.MaxTaskValue), nil },
	})
	for _, tc := range []struct {
		function string
		outcome  model.TaskOutcome
		exit     int
		value    string
		errs     []string
		stack    bool
	}{
		{"upper", model.TaskDone, 0, "ABC", nil, false},
		{"fail", model.TaskFailed, -1, "", []string{"no luck"}, false},
		{"panic", model.TaskFailed, -1, "", []string{"panic: ouch"}, true},
		{"exit", model.TaskFailed, -1, "", []string{"Goexit"}, false},
		{"large", model.TaskFailed, -1, "", []string{"large", "4194305 bytes", "4194304"}, false},
		{"limit", model.TaskDone, 0, string(make([]byte, model.MaxTaskValue)), nil, false},
		{"none", model.TaskNotRun, -1, "", []string{`"none"`, "exit, fail, large, limit, panic, upper", "same program"}, false},
	} {
		s.tasks(callTask(1, tc.function, []byte("abc")))
		got := s.result()
		if got.Outcome != tc.outcome || got.ExitCode != tc.exit || string(got.Value) != tc.value {
			t.Errorf("%s: outcome %s exit %d value of %d bytes, want %s, %d and %d bytes",
				tc.function, got.Outcome, got.ExitCode, len(got.Value), tc.outcome, tc.exit, len(tc.value))
		}
		for _, want := range tc.errs {
			if !strings.Contains(got.Error, want) {
				t.Errorf("%s: error %q lacks %q", tc.function, got.Error, want)
			}
		}
		if stack := strings.Contains(string(got.Stderr), "executor.TestAFunctionReturns"); stack != tc.stack || len(got.Stderr) > maxPanicStack {
			t.Errorf("%s: a stack: %t, want %t:\n%s", tc.function, stack, tc.stack, got.Stderr)
		}
		s.send(model.ExecutorDown{Ack: []model.TaskID{1}})
	}
}

func TestNoMoreFunctionsRunAtOnceThanThereAreSlots(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	step := make(chan struct{})
	s := startFunctions(t, 3, map[string]Function{"f": func(context.Context, []byte) ([]byte, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-step
		now.Add(-1)
		return nil, nil
	}})
	const tasks = 100
	var batch []model.ExecTask
	for i := range tasks {
		batch = append(batch, callTask(model.TaskID(i+1), "f", nil))
	}
	s.tasks(batch...)
	eventually(t, "functions on all slots", func() error {
		if n := now.Load(); n != 3 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	for range tasks {
		step <- struct{}{}
	}
	s.results(tasks)
	if most.Load() != 3 {
		t.Errorf("%d functions ran at once, want 3", most.Load())
	}
}

func TestAFunctionIsToldOfItsEndByItsContext(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 4)
	s := startFunctions(t, 1, map[string]Function{"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
		began <- struct{}{}
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		<-derived.Done()
		_, limited := ctx.Deadline()
		return []byte("late"), fmt.Errorf("limited %t: %w", limited, ctx.Err())
	}})
	slow := callTask(1, "wait", nil)
	slow.TimeoutMilli = 20
	s.tasks(slow)
	if got := s.result(); got.Outcome != model.TaskTimedOut || got.Value != nil || got.Error != "limited true: context deadline exceeded" || got.RuntimeMicro < 20_000 {
		t.Errorf("after its time-out: %+v", got)
	}
	s.tasks(callTask(2, "wait", nil), callTask(3, "wait", nil))
	<-began
	<-began
	s.send(model.ExecutorDown{Cancel: []model.TaskID{3}})
	if got := s.result(); got.ID != 3 || got.Outcome != model.TaskKilled || got.Error != "cancelled before it ran" {
		t.Errorf("cancelled while it waits: %+v", got)
	}
	s.send(model.ExecutorDown{Cancel: []model.TaskID{2}})
	if got := s.result(); got.ID != 2 || got.Outcome != model.TaskKilled || got.Error != "limited false: context canceled" {
		t.Errorf("cancelled while it runs: %+v", got)
	}
}

func TestAFunctionThatIgnoresItsContextIsReportedAndKeepsItsSlot(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := startFunctions(t, 1, map[string]Function{
		"deaf":  func(context.Context, []byte) ([]byte, error) { <-release; return []byte("late"), nil },
		"quick": func(context.Context, []byte) ([]byte, error) { return nil, nil },
	})
	deaf := callTask(1, "deaf", nil)
	deaf.TimeoutMilli = 1
	s.tasks(deaf, callTask(2, "quick", nil))
	lingering := func(want int) model.ExecutorUp {
		t.Helper()
		deadline := time.After(patience)
		for {
			select {
			case up := <-s.up:
				if up.Lingering != nil {
					if *up.Lingering != want {
						t.Errorf("%d functions linger, want %d", *up.Lingering, want)
					}
					return up
				}
			case <-deadline:
				t.Fatalf("not told that %d functions linger", want)
			}
		}
	}
	up := lingering(1) // before the result, whose slot is not free
	for len(up.Results) == 0 {
		up = <-s.up
	}
	if len(up.Results) != 1 || up.Results[0].ID != 1 || up.Results[0].Outcome != model.TaskTimedOut || !strings.Contains(up.Results[0].Error, "its slot stays taken") {
		t.Errorf("the function that does not return: %+v", up.Results)
	}
	close(release)
	up = lingering(0)
	for len(up.Results) == 0 {
		up = <-s.up
	}
	if up.Results[0].ID != 2 || up.Results[0].Outcome != model.TaskDone {
		t.Errorf("after its return: %+v", up.Results)
	}
}
