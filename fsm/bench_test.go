package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func benchWorld(b *testing.B, workers, cores int) *world {
	w := newWorld(b)
	w.f.check = false
	for i := range workers {
		w.must(regWorker(fmt.Sprintf("w%d", i), 1, cores))
	}
	return w
}

func encoded(b *testing.B, cmds ...*replogv1.Command) []byte {
	for _, c := range cmds {
		c.Tick, c.Wall = 1000, startWall
	}
	entry, err := EncodeBatch(cmds)
	if err != nil {
		b.Fatal(err)
	}
	return entry
}

// applied applies an entry within a benchmark.
func (w *world) applied(entry []byte) {
	w.index++
	if _, err := w.f.Apply(w.index, entry); err != nil {
		w.t.Fatal(err)
	}
}

// BenchmarkApplyPlacements applies one entry of 64 placements on 1,000
// workers, and one that takes them away again.
func BenchmarkApplyPlacements(b *testing.B) {
	w := benchWorld(b, 1000, 64)
	app := w.must(regApp(driverSpec())).App
	w.index = w.v().Index()
	var ps []*replogv1.Placement
	for i := range 64 {
		p := placement(app, fmt.Sprintf("w%d", i*7), 1, 1)
		p.MemoryMib = 512
		ps = append(ps, p)
	}
	entry := encoded(b, place(ps...))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		w.applied(entry)
		n += 64
		if n%(64*16) == 0 {
			b.StopTimer()
			w.must(killApp(app))
			w = benchWorld(b, 1000, 64)
			app = w.must(regApp(driverSpec())).App
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "placements/s")
}

// BenchmarkApplyReports applies entries of 64 reports, each of one executor's
// state, of 64 workers.
func BenchmarkApplyReports(b *testing.B) {
	w := benchWorld(b, 64, 64)
	app := w.must(regApp(driverSpec())).App
	for i := range 64 {
		w.placed(app, fmt.Sprintf("w%d", i), 1)
	}
	b.ReportAllocs()
	seq, n := uint64(0), 0
	for b.Loop() {
		b.StopTimer()
		seq++
		cmds := make([]*replogv1.Command, 64)
		for i := range cmds {
			cmds[i] = report(fmt.Sprintf("w%d", i), 1, seq, &replogv1.ExecutorReport{
				App: string(app), Executor: int32(i), State: string(model.ExecutorLaunching), Pid: int32(seq),
			})
		}
		entry := encoded(b, cmds...)
		b.StartTimer()
		w.applied(entry)
		n += 64
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkApplyRegistrations registers applications with request ids, 64 in
// an entry.
func BenchmarkApplyRegistrations(b *testing.B) {
	w := benchWorld(b, 1, 64)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		cmds := make([]*replogv1.Command, 64)
		for i := range cmds {
			cmds[i] = withID(regApp(driverSpec()), fmt.Sprintf("r%d", n+i), w.index)
		}
		entry := encoded(b, cmds...)
		b.StartTimer()
		w.applied(entry)
		n += 64
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkView takes a view and looks up one application and one worker.
func BenchmarkView(b *testing.B) {
	w := benchWorld(b, 1000, 64)
	app := w.must(regApp(driverSpec())).App
	b.ReportAllocs()
	for b.Loop() {
		v := w.v()
		if _, ok := v.App(app); !ok {
			b.Fatal("the application is not there")
		}
		if _, ok := v.Worker("w500"); !ok {
			b.Fatal("the worker is not there")
		}
	}
}

// BenchmarkSchedulableWorkers walks 1,000 workers as the scheduler does.
func BenchmarkSchedulableWorkers(b *testing.B) {
	w := benchWorld(b, 1000, 64)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		w.v().At(1000).SchedulableWorkers(func(*model.Worker, model.Usage) bool { n++; return true })
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkApplyPlaced takes applications of one executor on two workers through
// their lives, 64 at a time: an entry that registers them, one that places them,
// one of reports that they were started and one that they have ended.
func BenchmarkApplyPlaced(b *testing.B) {
	const batch = 64
	w := benchWorld(b, 2, 1<<14)
	w.index = w.v().Index()
	spec := commandSpec(1, 1, model.RestartNever)
	spec.Completions = 1
	spec.Command.Env = []string{"P=" + strings.Repeat("x", 200)}
	b.ReportAllocs()
	seq, n := uint64(0), 0
	for b.Loop() {
		b.StopTimer()
		var regs []*replogv1.Command
		for i := range batch {
			regs = append(regs, withID(regApp(spec), fmt.Sprintf("0123456789abcdef-%08d", n+i), w.index))
		}
		var places []*replogv1.Placement
		var started, done []*replogv1.ExecutorReport
		for i := range batch {
			app := model.AppIDFor(startWall, uint64(n+i+1))
			p := placement(app, fmt.Sprintf("w%d", i%2), 1, 1)
			p.MemoryMib = spec.Profile.MemoryMiB
			places = append(places, p)
			started = append(started, &replogv1.ExecutorReport{App: string(app), State: string(model.ExecutorLaunching), ExitCode: -1, Pid: 1})
			done = append(done, &replogv1.ExecutorReport{App: string(app), State: string(model.ExecutorExited)})
		}
		half := func(all []*replogv1.ExecutorReport, i int) (out []*replogv1.ExecutorReport) {
			for j := i; j < len(all); j += 2 {
				out = append(out, all[j])
			}
			return out
		}
		seq += 2
		entries := [][]byte{
			encoded(b, regs...), encoded(b, place(places...)),
			encoded(b, report("w0", 1, seq-1, half(started, 0)...), report("w1", 1, seq-1, half(started, 1)...)),
			encoded(b, report("w0", 1, seq, half(done, 0)...), report("w1", 1, seq, half(done, 1)...)),
		}
		b.StartTimer()
		for _, entry := range entries {
			w.applied(entry)
		}
		n += batch
	}
	if left := w.v().CountExecutors(); left != 0 || w.v().CountActive() != 0 {
		b.Fatalf("%d executors of %d applications have not ended", left, w.v().CountActive())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/executor")
}
