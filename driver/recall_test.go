package driver

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// While all calls were short many were sent ahead; then one is long. What waits
// behind it runs on the other executor, once.
func TestCallsThatWaitBehindALongOneRunElsewhere(t *testing.T) {
	t.Parallel()
	cl := newCluster(t)
	c, err := client.New(client.Config{Masters: []string{cl.addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ready, registered := make(chan struct{}, 2), make(chan struct{})
	d, err := New(Config{
		Client: c, Spec: model.AppSpec{Name: "recall", Profile: model.Profile{MemoryMiB: 512}, Executors: model.TargetUnlimited},
		Observer: func(e Event) {
			switch e.Kind { // the others do not matter
			case EventExecutorReady:
				ready <- struct{}{}
			case EventRegistered:
				close(registered)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var joined sync.WaitGroup
	defer joined.Wait()
	defer cancel()
	joined.Go(func() { _ = d.Run(ctx) })
	<-registered
	addr := locked(cl, func() string { return cl.specs[0].DriverAddr })
	release := make(chan struct{})
	var mu sync.Mutex
	ran := map[string]int{}
	for id := range model.ExecutorID(2) {
		cl.place(id, 1)
		dir := t.TempDir()
		joined.Go(func() {
			_ = executor.Run(ctx, executor.Config{
				TLS: tlsconf.Pinned(d.pin),
				App: testApp, Executor: id, DriverAddr: addr, Secret: secretOf(id), Cores: 1, WorkDir: dir,
				Functions: map[string]executor.Function{
					"hold": func(context.Context, []byte) ([]byte, error) { <-release; return nil, nil },
					"quick": func(_ context.Context, arg []byte) ([]byte, error) {
						mu.Lock()
						ran[string(arg)]++
						mu.Unlock()
						return nil, nil
					},
				},
			})
		})
	}
	<-ready
	<-ready
	quick := func(from, n int) (out []Task) {
		for i := range n {
			out = append(out, Task{Function: "quick", Argument: []byte{byte(from), byte(i), byte(i >> 8)}})
		}
		return out
	}
	take := func(n int) {
		t.Helper()
		limit, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		buf := make([]Result, 64)
		for n > 0 {
			got, err := d.Take(limit, buf[:min(n, len(buf))])
			if err != nil {
				t.Fatalf("%d results did not come while one call is long: %v", n, err)
			}
			for _, r := range buf[:got] {
				if r.Outcome != model.TaskDone || r.Attempt != 1 {
					t.Fatalf("task %d: %s at attempt %d: %s", r.ID, r.Outcome, r.Attempt, r.Error)
				}
			}
			n -= got
		}
	}
	submit := func(tasks []Task) {
		t.Helper()
		if _, err := d.SubmitAll(ctx, tasks, nil); err != nil {
			t.Fatal(err)
		}
	}
	submit(quick(1, 1000)) // the executors' pace is known
	take(1000)
	submit(append([]Task{{Function: "hold"}}, quick(2, 1000)...))
	take(1000)
	close(release)
	take(1)
	mu.Lock()
	defer mu.Unlock()
	for arg, n := range ran {
		if n != 1 {
			t.Errorf("call %v ran %d times", []byte(arg), n)
		}
	}
	if len(ran) != 2000 {
		t.Errorf("%d calls ran, want 2000", len(ran))
	}
}
