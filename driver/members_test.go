package driver

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestExecutorsThatCannotProveThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.AnnounceWait = 50 * time.Millisecond })
	addr := r.address()
	r.cluster.place(0, 1)
	r.cluster.place(1, 1)
	r.cluster.announce(model.DriverExecutor{ID: 3, Cores: 1, State: model.ExecutorLaunching})
	r.event(EventExecutorAdded)
	r.cluster.lost(1)
	r.event(EventExecutorEnded)
	for name, c := range map[string]struct {
		change func(*model.ExecutorHello)
		want   error
		text   string
	}{
		"another secret":           {func(h *model.ExecutorHello) { h.Secret = "guess" }, model.ErrUnauthenticated, "wrong secret"},
		"no secret":                {func(h *model.ExecutorHello) { h.Secret = "" }, model.ErrUnauthenticated, "wrong secret"},
		"none was announced":       {func(h *model.ExecutorHello) { h.Executor, h.Secret = 3, "" }, model.ErrUnauthenticated, "announced no secret"},
		"an executor that is over": {func(h *model.ExecutorHello) { h.Executor, h.Secret = 1, secretOf(1) }, model.ErrEnded, "executor 1"},
		"one that nobody placed":   {func(h *model.ExecutorHello) { h.Executor = 7 }, model.ErrNotFound, "not announced"},
		"another application":      {func(h *model.ExecutorHello) { h.App = "app-20261130061500-0002" }, model.ErrRefused, "0002"},
	} {
		hello := helloOf(0)
		c.change(&hello)
		err := connect(t, addr, hello).refusal()
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.text)
		}
	}
	if got := r.Executors(t.Context()); len(got) != 2 || got[0].State != ExecutorAnnounced {
		t.Errorf("executors %+v, want 0 and 3, announced", got)
	}
	r.join(addr, 0) // the right secret still opens
}

func TestAnExecutorMayComeBeforeItsAnnouncement(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	early := connect(t, addr, helloOf(0))
	liar := connect(t, addr, model.ExecutorHello{App: testApp, Executor: 0, Secret: "guess"})
	gone := connect(t, addr, helloOf(0))
	gone.close()
	gone.refusal()
	eventually(t, "the two wait", func() error {
		n := 0
		if err := r.call(t.Context(), func(l *loop) { n = len(l.parked) }); err != nil || n != 2 {
			return errors.Join(err, errors.New("not parked"))
		}
		return nil
	})
	r.cluster.place(0, 1)
	if m := early.next(); m.Welcome == nil {
		t.Errorf("message %+v, want a welcome", m)
	}
	if err := liar.refusal(); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("the other one: %v", err)
	}
}

func TestAnExecutorThatReconnectsKeepsItsTasks(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 4)
	a := r.join(addr, 0)
	for range 4 {
		r.submit("t")
	}
	tasks := a.tasks(4)
	a.report(done(tasks[0]))
	if res := r.result(); res.ID != 1 {
		t.Fatalf("result %+v", res)
	}
	if err := r.Cancel(3); err != nil {
		t.Fatal(err)
	}
	// The old stream is still open: a half-dead connection looks like this.
	// The executor missed the acknowledgement of 1 and never received 4.
	b := connect(t, addr, helloOf(0, 1, 2, 3))
	if err := a.refusal(); !errors.Is(err, model.ErrConflict) {
		t.Errorf("the old stream ended with %v, want ErrConflict", err)
	}
	welcome := b.next().Welcome
	if welcome == nil {
		t.Fatal("no welcome")
	}
	if diff := cmp.Diff([]model.TaskID{2, 3}, welcome.Adopted); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if again := b.next().Tasks; len(again) != 1 || again[0].ID != 4 || again[0].Attempt != 1 {
		t.Errorf("sent again: %+v, want task 4, attempt 1", again)
	}
	if m := b.next(); len(m.Cancel) != 1 || m.Cancel[0] != 3 {
		t.Errorf("message %+v, want the cancellation of 3 again", m)
	}
	killed := done(tasks[2])
	killed.Outcome = model.TaskKilled
	b.report(done(tasks[0]), done(tasks[1]), killed, done(tasks[3]))
	for _, want := range []model.TaskID{2, 3, 4} {
		if res := r.result(); res.ID != want || res.Reruns != 0 {
			t.Errorf("result %+v, want task %d, never lost", res, want)
		}
	}
	r.noResult()
	r.event(EventExecutorBack)
}

func TestPR05ASilentExecutorIsSuspectedFirstAndLostOnlyAtItsOwnTimeout(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.SuspectAfter, c.ExecutorTimeout = 100*time.Millisecond, 4*time.Second
	})
	addr := r.address()
	r.cluster.place(0, 2)
	// The task waits for the executor: after it came, a slow machine might
	// suspect the executor before there is anything for it.
	r.submit("t")
	a := r.join(addr, 0)
	task := a.tasks(1)[0]
	r.event(EventExecutorSuspect)
	r.submit("u")
	if got := r.Executors(t.Context())[0]; got.State != ExecutorSuspect || got.Running != 1 {
		t.Errorf("executor %+v, want suspect with the one old task", got)
	}
	if err := a.stream.Send(model.ExecutorUp{Beat: &model.Beat{Number: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := a.tasks(1)[0]; got.ID != 2 {
		t.Errorf("after its word it got task %d, want 2", got.ID)
	}
	if e := r.event(EventExecutorEnded); e.Tasks != 2 || !strings.Contains(e.Reason, "silent") {
		t.Errorf("event %+v", e)
	}
	// Too late: the task is another's. The stream may be closed already, or not.
	_ = a.stream.Send(model.ExecutorUp{Results: []model.TaskResult{done(task)}})
	if err := a.refusal(); !errors.Is(err, model.ErrEnded) {
		t.Errorf("its stream ended with %v", err)
	}
	if err := connect(t, addr, helloOf(0, 1, 2)).refusal(); !errors.Is(err, model.ErrEnded) {
		t.Errorf("it came back and got %v", err)
	}
	eventually(t, "the leader is told", func() error {
		if killed := locked(r.cluster, func() []model.ExecutorID { return r.cluster.killed }); len(killed) != 1 {
			return errors.New("no kill")
		}
		return nil
	})
	r.noResult()
}

func TestAChangeOfLeaderIsInvisible(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	r.cluster.place(1, 1)
	a, b := r.join(addr, 0), r.join(addr, 1)
	r.submit("t")
	r.submit("t")
	one, two := a.tasks(1)[0], b.tasks(1)[0]
	// Executor 1 ends while nobody leads: the next list lacks it.
	r.cluster.mu.Lock()
	delete(r.cluster.executors, 1)
	r.cluster.mu.Unlock()
	r.cluster.dropSessions()
	if e := r.event(EventExecutorEnded); e.Executor != 1 {
		t.Errorf("event %+v, want the end of executor 1", e)
	}
	a.report(done(one))
	if got := a.tasks(1)[0]; got.ID != two.ID || got.Attempt != 2 {
		t.Errorf("task %d, attempt %d came", got.ID, got.Attempt)
	}
}

func TestAnExecutorThatIsEndedByTheLeaderGetsNoNewTasks(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	r.join(addr, 0)
	r.cluster.announce(model.DriverExecutor{ID: 0, Cores: 1, State: model.ExecutorKilling, Secret: secretOf(0)})
	eventually(t, "the driver knows", func() error {
		if got := r.Executors(t.Context())[0].State; got != ExecutorLeaving {
			return errors.New(string(got))
		}
		return nil
	})
	r.submit("t")
	if got := r.Executors(t.Context())[0].Running; got != 0 {
		t.Errorf("it has %d tasks", got)
	}
}

// memoryFile is a place for spilled output.
type memoryFile struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	closed bool
}

func (f *memoryFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.Write(p)
}

func (f *memoryFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func TestLongOutputIsFetchedBeforeTheResultIsAcknowledged(t *testing.T) {
	t.Parallel()
	var opened []*memoryFile
	var mu sync.Mutex
	r := start(t, func(c *Config) {
		c.Spill = func(s Spill) (io.WriteCloser, error) {
			if s.Tag != "t" || s.Stderr || s.Bytes != 10 {
				return nil, errors.New("not the stream that is long")
			}
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, &memoryFile{})
			return opened[len(opened)-1], nil
		}
	})
	addr := r.address()
	r.cluster.place(0, 1)
	a := r.join(addr, 0)
	r.submit("t")
	task := a.tasks(1)[0]
	long := done(task)
	long.Stdout, long.StdoutBytes = []byte("01234"), 10
	a.report(long)
	if m := a.next(); m.Fetch == nil || *m.Fetch != (model.OutputFetch{ID: 1, Offset: 5, Limit: fetchBytes}) {
		t.Fatalf("message %+v, want a fetch from 5 on", m)
	}
	// The executor reconnects in the middle: everything starts again.
	r.submit("u") // takes the slot that is free meanwhile
	a.tasks(1)
	b := r.join(addr, 0, 1, 2)
	b.report(long)
	if m := b.next(); m.Fetch == nil || m.Fetch.Offset != 5 {
		t.Fatalf("message %+v, want a fetch from 5 on", m)
	}
	send := func(offset int64, text string) {
		chunk := &model.OutputChunk{ID: 1, Offset: offset, Data: []byte(text)}
		if err := b.stream.Send(model.ExecutorUp{Chunk: chunk}); err != nil {
			t.Fatal(err)
		}
	}
	send(5, "567")
	if m := b.next(); m.Fetch == nil || m.Fetch.Offset != 8 {
		t.Fatalf("message %+v, want a fetch from 8 on, and no acknowledgement yet", m)
	}
	send(8, "89")
	if m := b.next(); len(m.Ack) != 1 {
		t.Fatalf("message %+v, want the acknowledgement", m)
	}
	res := r.result()
	if res.OutputErr != nil || res.StderrFile != nil || res.StdoutFile != io.WriteCloser(opened[1]) {
		t.Fatalf("result %+v", res)
	}
	if got := opened[1].buf.String(); got != "0123456789" || opened[1].closed {
		t.Errorf("output %q, closed %v", got, opened[1].closed)
	}
	eventually(t, "the first attempt to fetch is closed", func() error {
		opened[0].mu.Lock()
		defer opened[0].mu.Unlock()
		if !opened[0].closed {
			return errors.New("open")
		}
		return nil
	})
}

func TestATaskWhoseOutputIsLostWithItsExecutorRunsAgain(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.Spill = func(Spill) (io.WriteCloser, error) { return &memoryFile{}, nil }
	})
	addr := r.address()
	r.cluster.place(0, 1)
	a := r.join(addr, 0)
	r.submit("t")
	long := done(a.tasks(1)[0])
	long.StderrBytes = 10
	a.report(long)
	if a.next().Fetch == nil {
		t.Fatal("no fetch")
	}
	r.cluster.lost(0)
	r.cluster.place(1, 1)
	b := r.join(addr, 1)
	long.Attempt = b.tasks(1)[0].Attempt
	b.report(long)
	if b.next().Fetch == nil {
		t.Fatal("no fetch")
	}
	// What cannot be had does not hide the result.
	chunk := &model.OutputChunk{ID: 1, Stderr: true, Error: "the disk is full"}
	if err := b.stream.Send(model.ExecutorUp{Chunk: chunk}); err != nil {
		t.Fatal(err)
	}
	res := r.result()
	if res.Attempt != 2 || res.OutputErr == nil || !strings.Contains(res.OutputErr.Error(), "disk is full") {
		t.Errorf("result %+v", res)
	}
}
