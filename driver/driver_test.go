package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestARegistrationCutShortIsRepeatedUnderOneID(t *testing.T) {
	t.Parallel()
	cl := newCluster(t)
	cl.cut = 3
	r := startOn(t, cl, nil)
	if e := r.event(EventRegistered); e.App != testApp || r.App() != testApp {
		t.Errorf("registered as %s, App says %s, want %s", e.App, r.App(), testApp)
	}
	if n := locked(cl, func() int { return len(cl.requests) }); n != 1 {
		t.Errorf("%d request ids, want 1", n)
	}
	if err := r.Finish(t.Context(), model.AppFinished, "done", 3); err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	got := locked(cl, func() rpcFinish {
		return rpcFinish{cl.finish.State, cl.finish.Reason, cl.finish.ExitCode, cl.finish.Token.Reveal()}
	})
	if diff := cmp.Diff(rpcFinish{model.AppFinished, "done", 3, testToken}, got); diff != "" {
		t.Errorf("finish (-want +got):\n%s", diff)
	}
	if _, err := r.Submit(t.Context(), Task{Argv: []string{"x"}}); !errors.Is(err, errStopped) {
		t.Errorf("submit after the end: %v", err)
	}
}

type rpcFinish struct {
	State  model.AppState
	Reason string
	Exit   int
	Token  string
}

func TestTasksAreHandedOutInOrderInOneBatch(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.CoresPerTask = 2 })
	addr := r.address()
	for range 5 {
		r.submit("t")
	}
	r.cluster.place(0, 7) // three slots
	p := r.join(addr, 0)
	var got []model.TaskID
	first := p.next().Tasks
	for _, task := range first {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff([]model.TaskID{1, 2, 3}, got); diff != "" {
		t.Errorf("first batch (-want +got):\n%s", diff)
	}
	p.report(done(first[1]), done(first[0]))
	next := p.tasks(2)
	if next[0].ID != 4 || next[1].ID != 5 {
		t.Errorf("then came %d and %d, want 4 and 5", next[0].ID, next[1].ID)
	}
	if res := r.result(); res.ID != 2 || res.Tag != "t" || res.Host != "host-0" || string(res.Stdout) != "t" {
		t.Errorf("result %+v", res)
	}
	want := []ExecutorInfo{{ID: 0, Worker: "w", Host: "host-0", PID: 4, Cores: 7, State: ExecutorReady, Slots: 3, Running: 3}}
	if diff := cmp.Diff(want, r.Executors(t.Context())); diff != "" {
		t.Errorf("executors (-want +got):\n%s", diff)
	}
	eventually(t, "the leader is told", func() error {
		if locked(r.cluster, func() bool { return r.cluster.confirmed[0] }) {
			return nil
		}
		return errors.New("not confirmed")
	})
}

func TestFewTasksAreSpreadOverAllExecutors(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.MaxRunning = 2 })
	addr := r.address()
	r.cluster.place(0, 4)
	r.cluster.place(1, 4)
	a, b := r.join(addr, 0), r.join(addr, 1)
	for range 3 {
		r.submit("t")
	}
	one, two := a.tasks(1), b.tasks(1)
	if len(one) != 1 || len(two) != 1 {
		t.Errorf("executor 0 got %d tasks and executor 1 %d, want one each", len(one), len(two))
	}
	a.report(done(one[0]))
	if got := a.tasks(1); got[0].ID != 3 { // MaxRunning lets it go only now
		t.Errorf("task %d came third", got[0].ID)
	}
}

func TestALostExecutorsTasksRunElsewhereFirst(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 2)
	a := r.join(addr, 0)
	for range 4 {
		r.submit("t")
	}
	held := a.tasks(2)
	r.cluster.lost(0)
	ended := r.event(EventExecutorEnded)
	if ended.Executor != 0 || ended.Tasks != 2 || !ended.Ready {
		t.Errorf("event %+v", ended)
	}
	if e := r.event(EventTaskRerun); e.Task != 1 || e.Attempt != 2 {
		t.Errorf("event %+v, want a rerun of task 1", e)
	}
	if err := a.refusal(); !errors.Is(err, model.ErrEnded) {
		t.Errorf("the lost executor's stream ended with %v, want ErrEnded", err)
	}
	if got := r.Executors(t.Context()); len(got) != 0 {
		t.Errorf("still in the table: %+v", got)
	}
	r.cluster.place(1, 4)
	b := r.join(addr, 1)
	var got []model.ExecTask
	for _, task := range b.tasks(4) {
		got = append(got, model.ExecTask{ID: task.ID, Attempt: task.Attempt})
	}
	want := []model.ExecTask{{ID: 1, Attempt: 2}, {ID: 2, Attempt: 2}, {ID: 3, Attempt: 1}, {ID: 4, Attempt: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handed out (-want +got):\n%s", diff)
	}
	b.report(resultOf(held[0], 2), resultOf(held[0], 2))
	if res := r.result(); res.ID != 1 || res.Attempt != 2 || res.Reruns != 1 {
		t.Errorf("result %+v", res)
	}
}

func TestATaskThatKillsItsExecutorsIsGivenUp(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.submit("poison")
	if MaxReruns+1 >= model.FailuresLimit {
		t.Errorf("the application would fail before its call: %d losses, %d ended executors are borne", MaxReruns+1, model.FailuresLimit)
	}
	for id := range model.ExecutorID(MaxReruns + 1) {
		r.cluster.place(id, 1)
		p := r.join(addr, id)
		if got := p.tasks(1)[0].Attempt; got != int(id)+1 {
			t.Fatalf("attempt %d, want %d", got, id+1)
		}
		r.cluster.lost(id)
	}
	if res := r.result(); res.Outcome != model.TaskNotRun || res.Reruns != MaxReruns || res.Error == "" {
		t.Errorf("result %+v", res)
	}
}

func TestRepeatedResultsAreAcknowledgedAndDropped(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	p := r.join(addr, 0)
	r.submit("t")
	task := p.tasks(1)[0]
	p.report(done(task))
	p.report(done(task), model.TaskResult{ID: 99, Attempt: 1, Outcome: model.TaskDone})
	var acks []model.TaskID
	for len(acks) < 3 {
		acks = append(acks, p.next().Ack...)
	}
	if diff := cmp.Diff([]model.TaskID{1, 1, 99}, acks); diff != "" {
		t.Errorf("acknowledged (-want +got):\n%s", diff)
	}
	if res := r.result(); res.ID != 1 {
		t.Errorf("result %+v", res)
	}
	r.noResult()
}

func TestAResultOfAnOldAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	a := r.join(addr, 0)
	r.submit("t")
	old := a.tasks(1)[0]
	r.cluster.lost(0)
	r.cluster.place(1, 1)
	b := r.join(addr, 1)
	task := b.tasks(1)[0]
	b.report(done(old))
	b.report(done(task))
	if res := r.result(); res.Attempt != 2 {
		t.Errorf("result %+v, want that of attempt 2", res)
	}
	r.noResult()
}

func TestCancelledTasksAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	p := r.join(addr, 0)
	running, waiting := r.submit("a"), r.submit("b")
	task := p.tasks(1)[0]
	if err := r.CancelAll(); err != nil {
		t.Fatal(err)
	}
	if res := r.result(); res.ID != waiting || res.Outcome != model.TaskKilled {
		t.Errorf("result %+v, want the waiting task killed", res)
	}
	if m := p.next(); len(m.Cancel) != 1 || m.Cancel[0] != running {
		t.Errorf("message %+v, want the running task cancelled", m)
	}
	killed := resultOf(task, 1)
	killed.Outcome = model.TaskKilled
	p.report(killed)
	if res := r.result(); res.ID != running || res.Outcome != model.TaskKilled {
		t.Errorf("result %+v, want the running task killed", res)
	}
	if err := r.Cancel(running, 77); err != nil {
		t.Errorf("cancelling what is over: %v", err)
	}
	lost := r.submit("c")
	p.tasks(1)
	if err := r.Cancel(lost); err != nil {
		t.Fatal(err)
	}
	r.cluster.lost(0)
	if res := r.result(); res.ID != lost || res.Outcome != model.TaskKilled {
		t.Errorf("result %+v, want the lost task killed and not run again", res)
	}
}

func TestAnEndBySomebodyElseEndsTheRun(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.event(EventRegistered)
	r.cluster.end(model.DriverEnded{State: model.AppKilled, Reason: "by ann"})
	err := r.end()
	var ended *AppEndedError
	if !errors.As(err, &ended) || !errors.Is(err, model.ErrEnded) {
		t.Fatalf("Run ended with %v", err)
	}
	if diff := cmp.Diff(AppEndedError{App: testApp, State: model.AppKilled, Reason: "by ann"}, *ended); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if _, open := <-r.Results(); open {
		t.Error("the results are not closed")
	}
	if err := r.Finish(t.Context(), model.AppFinished, "", 0); !errors.As(err, &ended) {
		t.Errorf("finish after the end: %v", err)
	}
}

func TestSubmitBlocksWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	for range MaxQueued {
		r.submit("t")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Submit(ctx, Task{Argv: []string{"t"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("submit to a full queue: %v", err)
	}
	r.cluster.place(0, 1)
	r.join(addr, 0)
	r.submit("one more") // a slot was free
}

func TestAnUnreadResultStopsTheHandingOut(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	p := r.join(addr, 0)
	go func() {
		for range MaxUndelivered + 2 {
			r.submit("t")
		}
	}()
	for range MaxUndelivered {
		p.report(done(p.tasks(1)[0]))
	}
	eventually(t, "the executor idles", func() error {
		if x := r.Executors(t.Context()); x[0].Running != 0 {
			return errors.New("it still has a task")
		}
		return nil
	})
	r.result()
	p.tasks(1)
}

func TestBadTasksAndConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for name, c := range map[string]struct {
		task Task
		want error
	}{
		"no program":             {Task{}, model.ErrInvalid},
		"a negative time-out":    {Task{Argv: []string{"x"}, Timeout: -1}, model.ErrInvalid},
		"an enormous argument":   {Task{Argv: []string{string(make([]byte, model.MaxTaskBytes+1))}}, model.ErrTooLarge},
		"files of too much data": {Task{Argv: []string{"x"}, Files: []model.File{{Name: "f", Data: make([]byte, MaxTaskFileBytes)}}}, model.ErrTooLarge},
	} {
		if _, err := r.Submit(t.Context(), c.task); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, change := range map[string]func(*Config){
		"no client":                   func(c *Config) { c.Client = nil },
		"any address and no host":     func(c *Config) { c.Listen, c.Advertise = "0.0.0.0:0", "" },
		"no port":                     func(c *Config) { c.Listen = "localhost" },
		"no memory in the profile":    func(c *Config) { c.Spec.Profile.MemoryMiB = 0 },
		"a negative number of cores":  func(c *Config) { c.CoresPerTask = -1 },
		"an application with no name": func(c *Config) { c.Spec.Name = "" },
	} {
		cfg := r.cfg
		change(&cfg)
		if _, err := New(cfg); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
