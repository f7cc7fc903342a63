package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Limits of PR-03.
const (
	stopToldWithin  = 5 * time.Second
	executorEndedIn = 15 * time.Second
)

// The leader calls the worker dead; executor and driver see nothing of it. The
// executor runs a task that has put a child into the background.
func TestPR03AnExecutorThatOnlyTheLeaderCallsLostIsStoppedAndCannotRegisterAgain(t *testing.T) {
	t.Parallel()
	const runs = 100
	r := start(t, nil)
	addr := r.address()
	for run := range model.ExecutorID(runs) {
		r.cluster.place(run, 1)
		dir := t.TempDir()
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			ended <- executor.Run(ctx, executor.Config{
				App: testApp, Executor: run, DriverAddr: addr, Secret: secretOf(run), Cores: 1, Host: "h",
				Worker: "w", WorkDir: dir, Env: []string{"PATH=/usr/bin:/bin"},
			})
		}()
		if _, err := r.Submit(t.Context(), Task{Argv: []string{"sh", "-c", "sleep 300 & echo $! > " + dir + "/pid.new; mv " + dir + "/pid.new " + dir + "/pid; wait"}}); err != nil {
			t.Fatal(err)
		}
		child := 0
		eventually(t, "the task runs", func() error {
			text, err := os.ReadFile(dir + "/pid")
			if err == nil {
				child, err = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			return err
		})
		r.cluster.lost(run)
		lost := time.Now()
		for e := r.event(EventExecutorEnded); e.Executor != run; {
			e = r.event(EventExecutorEnded)
		}
		if took := time.Since(lost); took > stopToldWithin {
			t.Errorf("run %d: the driver acted %s after the leader, want at most %s", run, took, stopToldWithin)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, model.ErrEnded) {
				t.Errorf("run %d: the executor ended with %v, want %v", run, err, model.ErrEnded)
			}
		case <-time.After(executorEndedIn - time.Since(lost)):
			t.Errorf("run %d: the executor lives %s after the leader called it lost", run, executorEndedIn)
			cancel()
			<-ended
		}
		cancel()
		if link, err := os.Readlink("/proc/" + strconv.Itoa(child) + "/cwd"); err == nil && strings.HasPrefix(link, dir) {
			t.Errorf("run %d: process %d of its task is left", run, child)
		}
		late := connect(t, addr, helloOf(run))
		if err := late.refusal(); !errors.Is(err, model.ErrEnded) {
			t.Errorf("run %d: a late registration got %v, want %v", run, err, model.ErrEnded)
		}
		late.close()
		if err := r.CancelAll(); err != nil { // or the task would move on to the next executor
			t.Fatal(err)
		}
		if res := r.result(); res.Outcome != model.TaskKilled || res.Reruns != 1 {
			t.Errorf("run %d: %+v, want the lost task cancelled while it waits", run, res.TaskResult)
		}
	}
	if left := r.Executors(t.Context()); len(left) != 0 {
		t.Errorf("still in the table: %+v", left)
	}
}

// oneTable is what must hold between two steps of the loop: each task without
// a result is in the queue or held by an executor of the table, and nowhere
// else.
func (l *loop) oneTable(t *testing.T, lost model.ExecutorID) {
	if _, ok := l.members[lost]; ok {
		t.Errorf("executor %d is lost and in the table", lost)
	}
	if i := slices.IndexFunc(l.order, func(m *member) bool { return m.info.ID == lost }); i >= 0 {
		t.Errorf("executor %d is lost and among those that get tasks", lost)
	}
	for _, m := range l.byConn {
		if l.members[m.info.ID] != m {
			t.Errorf("executor %d is heard and not in the table", m.info.ID)
		}
	}
	held, queued := 0, 0
	for _, m := range l.members {
		for _, task := range m.tasks() {
			id := task.spec.ID
			if held++; l.tasks.Get(id) != task || task.at != m {
				t.Errorf("executor %d holds task %d, which says otherwise", m.info.ID, id)
			}
		}
	}
	for _, task := range l.tasks.All() {
		id := task.spec.ID
		switch {
		case task.at == nil:
			queued++
		case l.members[task.at.info.ID] != task.at:
			t.Errorf("task %d is with executor %d, which is not in the table", id, task.at.info.ID)
		}
	}
	if held+queued != l.tasks.Len() || queued != l.queued() {
		t.Errorf("%d tasks: %d held, %d without an executor, %d queued", l.tasks.Len(), held, queued, l.queued())
	}
}

// diligent is an executor that does whatever it gets.
func (r *rig) diligent(addr string, id model.ExecutorID, joined *sync.WaitGroup) *puppet {
	r.t.Helper()
	r.cluster.place(id, 2)
	p := r.join(addr, id)
	joined.Go(func() {
		for {
			select {
			case m := <-p.down:
				for _, task := range m.Tasks {
					if p.stream.Send(model.ExecutorUp{Results: []model.TaskResult{done(task)}}) != nil {
						return
					}
				}
			case <-p.ended:
				return
			}
		}
	})
	return p
}

// mute connects an executor that takes tasks and says nothing; the result tells how many it got until its stream ended.
func (r *rig) mute(conn *rpc.Conn, id model.ExecutorID) <-chan int {
	r.t.Helper()
	r.cluster.place(id, 2)
	s, err := rpc.OpenExecutorSession(context.Background(), conn)
	if err != nil {
		r.t.Fatal(err)
	}
	hello := helloOf(id)
	if err := s.Send(model.ExecutorUp{Hello: &hello}); err != nil {
		r.t.Fatal(err)
	}
	for m := (model.ExecutorDown{}); m.Welcome == nil; { // beats may come first: it may wait for its announcement
		if m, err = s.Recv(); err != nil {
			r.t.Fatalf("executor %d: %v, want a welcome", id, err)
		}
	}
	got := make(chan int, 1)
	go func() {
		n := 0
		for {
			m, err := s.Recv()
			if err != nil {
				got <- n
				return
			}
			n += len(m.Tasks)
		}
	}()
	return got
}

// The lost executor's stream stays open: there is no event of a disconnect.
func TestPR04ALostExecutorIsRemovedInOneStepAndGetsNoTaskAfterwards(t *testing.T) {
	t.Parallel()
	const runs, tasks = 1000, 6
	rnd := rand.New(rand.NewPCG(4, 0))
	r := start(t, nil)
	addr := r.address()
	var joined sync.WaitGroup
	defer joined.Wait()
	defer r.diligent(addr, 0, &joined).close()
	conn, err := rpc.Dial(addr, rpc.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lostWithTasks := 0
	for run := range runs {
		victim := model.ExecutorID(run + 1)
		got := r.mute(conn, victim)
		at := rnd.IntN(tasks + 1)
		for n := range tasks {
			if n == at {
				r.cluster.lost(victim)
			}
			r.submit("t")
		}
		if at == tasks {
			r.cluster.lost(victim)
		}
		e := r.event(EventExecutorEnded)
		if e.Executor != victim {
			t.Fatalf("run %d: executor %d has ended", run, e.Executor)
		}
		if err := r.call(t.Context(), func(l *loop) { l.oneTable(t, victim) }); err != nil {
			t.Fatal(err)
		}
		seen := map[model.TaskID]bool{}
		for range tasks {
			res := r.result()
			if res.Executor != 0 || seen[res.ID] {
				t.Errorf("run %d: task %d has a result of executor %d; one came before: %v", run, res.ID, res.Executor, seen[res.ID])
			}
			seen[res.ID] = true
		}
		if err := r.call(t.Context(), func(l *loop) { l.oneTable(t, victim) }); err != nil {
			t.Fatal(err)
		}
		// What was on its way when it was removed may be lost with the stream.
		if n := <-got; n > e.Tasks {
			t.Errorf("run %d: the lost executor got %d tasks, and had %d when it was removed", run, n, e.Tasks)
		}
		if e.Tasks > 0 {
			lostWithTasks++
		}
		if t.Failed() {
			return
		}
	}
	if lostWithTasks < runs/10 {
		t.Errorf("only %d of %d executors had tasks when they were lost: the test shows little", lostWithTasks, runs)
	}
}
