package driver

import (
	"context"
	"sync"
	"testing"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// benchRig is a driver with two executors of one core in this process.
func benchRig(b *testing.B, change func(*Config)) *Driver {
	b.Helper()
	cl := newCluster(b)
	c, err := client.New(client.Config{Masters: []string{cl.addr}})
	if err != nil {
		b.Fatal(err)
	}
	cfg := Config{Client: c, Spec: model.AppSpec{Name: "bench", Profile: model.Profile{MemoryMiB: 512}, Executors: model.TargetUnlimited}}
	ready := make(chan struct{}, 2)
	registered := make(chan struct{})
	cfg.Observer = func(e Event) {
		switch e.Kind { // the others do not matter
		case EventExecutorReady:
			ready <- struct{}{}
		case EventRegistered:
			close(registered)
		}
	}
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var joined sync.WaitGroup
	joined.Go(func() { _ = d.Run(ctx) })
	<-registered
	addr := locked(cl, func() string { return cl.specs[0].DriverAddr })
	for id := range model.ExecutorID(2) {
		cl.place(id, 1)
		joined.Go(func() {
			_ = executor.Run(ctx, executor.Config{
				TLS: tlsconf.Pinned(d.pin),
				App: testApp, Executor: id, DriverAddr: addr, Secret: secretOf(id), Cores: 1, WorkDir: b.TempDir(),
				Functions: map[string]executor.Function{"noop": func(_ context.Context, arg []byte) ([]byte, error) { return arg, nil }},
			})
		})
	}
	<-ready
	<-ready
	b.Cleanup(func() {
		cancel()
		joined.Wait()
		_ = c.Close()
	})
	return d
}

func BenchmarkOneTask(b *testing.B) {
	d := benchRig(b, nil)
	arg := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Submit(b.Context(), Task{Function: "noop", Argument: arg}); err != nil {
			b.Fatal(err)
		}
		<-d.Results()
	}
}

func BenchmarkManyTasks(b *testing.B)   { benchMany(b, 0) }
func BenchmarkSingleTasks(b *testing.B) { benchMany(b, 1) }

func benchMany(b *testing.B, batch int) {
	d := benchRig(b, func(c *Config) { c.MaxBatch = batch })
	arg := make([]byte, 256)
	tasks := make([]Task, 4096)
	for i := range tasks {
		tasks[i] = Task{Function: "noop", Argument: arg}
	}
	buf := make([]Result, 4096)
	b.ReportAllocs()
	b.ResetTimer()
	sent, taken := 0, 0
	for taken < b.N {
		if more := min(b.N-sent, 4096-(sent-taken)); more > 0 {
			if _, err := d.SubmitAll(b.Context(), tasks[:more], nil); err != nil {
				b.Fatal(err)
			}
			sent += more
		}
		n, err := d.Take(b.Context(), buf)
		if err != nil {
			b.Fatal(err)
		}
		taken += n
	}
}
