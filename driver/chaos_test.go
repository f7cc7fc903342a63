package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// restless is an executor that reports everything, sometimes twice, sometimes
// only after its stream has broken, until its context ends.
type restless struct {
	addr string
	id   model.ExecutorID
	rnd  *rand.Rand
	held map[model.TaskID]model.TaskResult
}

func (x *restless) run(ctx context.Context) {
	conn, err := rpc.Dial(x.addr, rpc.DialConfig{})
	if err != nil {
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		if err := x.session(ctx, conn); err != nil && strings.Contains(err.Error(), "not wanted") {
			return
		}
	}
}

func (x *restless) session(ctx context.Context, conn *rpc.Conn) error {
	s, err := rpc.OpenExecutorSession(ctx, conn)
	if err != nil {
		return err
	}
	defer s.Close()
	hello := helloOf(x.id)
	for id := range x.held {
		hello.Running = append(hello.Running, id)
	}
	if err := s.Send(model.ExecutorUp{Hello: &hello}); err != nil {
		_, err = s.Recv()
		return err
	}
	for {
		m, err := s.Recv()
		if err != nil || m.Stop {
			return err
		}
		var report []model.TaskResult
		if m.Welcome != nil {
			wanted := map[model.TaskID]model.TaskResult{}
			for _, id := range m.Welcome.Adopted {
				wanted[id] = x.held[id]
				report = append(report, x.held[id])
			}
			x.held = wanted
		}
		for _, t := range m.Tasks {
			x.held[t.ID] = done(t)
			report = append(report, x.held[t.ID])
		}
		for _, id := range m.Ack {
			delete(x.held, id)
		}
		if len(report) == 0 {
			continue
		}
		if x.rnd.IntN(10) == 0 {
			return nil // breaks before the report
		}
		if x.rnd.IntN(4) == 0 {
			report = append(report, report...)
		}
		if err := s.Send(model.ExecutorUp{Results: report}); err != nil {
			return err
		}
		if x.rnd.IntN(20) == 0 {
			return nil // breaks after it
		}
	}
}

func TestEachOfAThousandTasksHasOneResultWhileExecutorsAreLost(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			const tasks, executors = 1000, 4
			rnd := rand.New(rand.NewPCG(seed, 0))
			r := start(t, nil)
			addr := r.address()
			var joined sync.WaitGroup
			defer joined.Wait()
			stop := map[model.ExecutorID]context.CancelFunc{}
			next := model.ExecutorID(0)
			launch := func() {
				ctx, cancel := context.WithCancel(context.Background())
				x := &restless{addr: addr, id: next, rnd: rand.New(rand.NewPCG(seed, uint64(next)+1)), held: map[model.TaskID]model.TaskResult{}}
				stop[next] = cancel
				r.cluster.place(next, 1+rnd.IntN(8))
				next++
				joined.Go(func() { x.run(ctx) })
			}
			for range executors {
				launch()
			}
			go func() {
				for range tasks {
					if _, err := r.Submit(context.Background(), Task{Argv: []string{"t"}}); err != nil {
						return
					}
				}
			}()
			seen := map[model.TaskID]int{}
			lost := 0
			for len(seen) < tasks {
				res := r.result()
				seen[res.ID]++
				if res.Outcome != model.TaskDone {
					t.Errorf("task %d: %s: %s", res.ID, res.Outcome, res.Error)
				}
				if rnd.IntN(40) != 0 {
					continue
				}
				// The youngest survive to finish; any may be the victim, and
				// it may or may not notice.
				victim := next - model.ExecutorID(1+rnd.IntN(executors))
				if stop[victim] == nil {
					continue
				}
				if rnd.IntN(2) == 0 {
					stop[victim]()
				}
				r.cluster.lost(victim)
				defer stop[victim]()
				delete(stop, victim)
				lost++
				launch()
			}
			for _, cancel := range stop {
				cancel()
			}
			r.noResult()
			for id, n := range seen {
				if n != 1 {
					t.Errorf("task %d has %d results", id, n)
				}
			}
			if lost == 0 {
				t.Error("no executor was lost: the test shows nothing")
			}
			// The table in the end: nothing held, nothing counted.
			if err := r.call(t.Context(), func(l *loop) {
				if l.tasks.Len() != 0 || l.running != 0 || l.queued() != 0 || l.d.out.bytes != 0 {
					t.Errorf("%d tasks, %d running, %d queued, %d bytes remain", l.tasks.Len(), l.running, l.queued(), l.d.out.bytes)
				}
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRealExecutorsDoTheWork(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	var joined sync.WaitGroup
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer joined.Wait()
	defer cancel()
	launch := func(ctx context.Context, id model.ExecutorID) {
		r.cluster.place(id, 2)
		cfg := executor.Config{
			App: testApp, Executor: id, DriverAddr: addr, Secret: secretOf(id), Cores: 2, Host: "h",
			Worker: "w", WorkDir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
		}
		joined.Go(func() { ended <- executor.Run(ctx, cfg) })
	}
	victim, kill := context.WithCancel(ctx)
	defer kill()
	launch(victim, 0)
	launch(ctx, 1)
	const tasks = 40
	for n := range tasks {
		if _, err := r.Submit(ctx, Task{Argv: []string{"sh", "-c", fmt.Sprintf("cat f; echo %d", n)}, Tag: n, Files: []model.File{{Name: "f", Data: []byte("file ")}}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range tasks {
		if n == 10 {
			kill()
			if err := <-ended; err != nil {
				t.Errorf("the victim: %v", err)
			}
			r.cluster.lost(0)
		}
		res := r.result()
		if want := fmt.Sprintf("file %d\n", res.Tag); res.Outcome != model.TaskDone || string(res.Stdout) != want {
			t.Errorf("task %d: %s %q %s, want %q", res.ID, res.Outcome, res.Stdout, res.Error, want)
		}
	}
	if err := r.Finish(ctx, model.AppFinished, "", 0); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("an executor that was told to stop: %v", err)
	}
}
