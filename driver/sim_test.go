package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// pipe is a stream between a driver and a simulated executor, in memory.
type pipe struct {
	ctx    context.Context
	cancel context.CancelFunc
	up     chan model.ExecutorUp
	down   chan model.ExecutorDown
	// latency holds back every message.
	latency time.Duration
}

func newPipe(ctx context.Context, latency time.Duration) *pipe {
	ctx, cancel := context.WithCancel(ctx)
	return &pipe{ctx: ctx, cancel: cancel, up: make(chan model.ExecutorUp, 64), down: make(chan model.ExecutorDown, 64), latency: latency}
}

var errCut = errors.New("the stream is cut")

// Send is the driver's end. Like gRPC it has encoded the message when it returns.
func (p *pipe) Send(m model.ExecutorDown) error {
	m.Tasks, m.Ack, m.Cancel = append([]model.ExecTask(nil), m.Tasks...), append([]model.TaskID(nil), m.Ack...), append([]model.TaskID(nil), m.Cancel...)
	select {
	case p.down <- m:
		return nil
	case <-p.ctx.Done():
		return errCut
	}
}

// SendFrames is the driver's end.
func (p *pipe) SendFrames(f *rpc.Frames) error {
	msgs, err := f.Down()
	if err != nil {
		panic(err)
	}
	for _, m := range msgs {
		if err := p.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// Free is the driver's end.
func (p *pipe) Free([]model.TaskResult) {}

// Recv is the driver's end.
func (p *pipe) Recv() (model.ExecutorUp, error) {
	select {
	case m := <-p.up:
		return m, nil
	case <-p.ctx.Done():
		return model.ExecutorUp{}, io.EOF
	}
}

// simExecutor is a model of an executor: it knows the protocol and nothing of the
// real one's structure. Each task takes no time, or a random one.
type simExecutor struct {
	d     *Driver
	id    model.ExecutorID
	rnd   *rand.Rand
	slots int
	// life ends the executor as SIGKILL does.
	life context.Context

	queue []model.ExecTask
	done  map[model.TaskID]model.TaskResult // not acknowledged
	ran   map[string]int                    // how often each attempt was run here
}

func (x *simExecutor) run() {
	for x.life.Err() == nil {
		x.session()
		select {
		case <-time.After(time.Duration(x.rnd.IntN(50)) * time.Millisecond):
		case <-x.life.Done():
		}
	}
}

func (x *simExecutor) session() {
	p := newPipe(x.life, 0)
	defer p.cancel()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = hub{x.d}.ExecutorSession(p.ctx, p)
		p.cancel()
	}()
	defer func() { p.cancel(); <-served }()
	hello := helloOf(x.id)
	hello.Holds = 1 << 14
	for _, t := range x.queue {
		hello.Running = append(hello.Running, t.ID)
	}
	for id := range x.done {
		hello.Running = append(hello.Running, id)
	}
	p.up <- model.ExecutorUp{Hello: &hello}
	cut := time.After(time.Duration(1+x.rnd.IntN(400)) * time.Millisecond)
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	work := time.NewTimer(0)
	defer work.Stop()
	for {
		var report []model.TaskResult
		select {
		case <-p.ctx.Done():
			return
		case <-cut:
			return
		case <-beat.C:
			p.say(model.ExecutorUp{Beat: &model.Beat{Number: 1}})
		case m := <-p.down:
			if m.Stop {
				return
			}
			report = x.take(&m)
		case <-work.C:
			report = x.work()
			if len(x.queue) > 0 {
				work.Reset(time.Duration(x.rnd.IntN(3)) * time.Millisecond)
			}
		}
		if len(x.queue) > 0 {
			work.Reset(time.Duration(x.rnd.IntN(3)) * time.Millisecond)
		}
		if len(report) > 0 && x.rnd.IntN(50) == 0 {
			return // before the report
		}
		if len(report) > 0 && !p.say(model.ExecutorUp{Results: report}) {
			return
		}
	}
}

func (p *pipe) say(m model.ExecutorUp) bool {
	select {
	case p.up <- m:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// take obeys a message in the order Ack, Tasks, Cancel.
func (x *simExecutor) take(m *model.ExecutorDown) (report []model.TaskResult) {
	if m.Welcome != nil {
		x.slots = max(1, m.Welcome.Slots)
		wanted := map[model.TaskID]bool{}
		for _, id := range m.Welcome.Adopted {
			wanted[id] = true
		}
		var queue []model.ExecTask
		for _, t := range x.queue {
			if wanted[t.ID] {
				queue = append(queue, t)
			}
		}
		x.queue = queue
		for id, r := range x.done {
			if !wanted[id] {
				delete(x.done, id)
				continue
			}
			report = append(report, r)
		}
	}
	for _, id := range m.Ack {
		delete(x.done, id)
	}
	x.queue = append(x.queue, m.Tasks...)
	for _, id := range m.Cancel {
		for i, t := range x.queue {
			if t.ID == id {
				x.queue = append(x.queue[:i:i], x.queue[i+1:]...)
				report = append(report, x.ended(t, model.TaskKilled))
				break
			}
		}
	}
	return report
}

// work ends some of the tasks in the slots.
func (x *simExecutor) work() (report []model.TaskResult) {
	n := min(len(x.queue), 1+x.rnd.IntN(64*x.slots))
	for _, t := range x.queue[:n] {
		x.ran[fmt.Sprint(t.ID, "/", t.Attempt)]++
		report = append(report, x.ended(t, model.TaskDone))
	}
	x.queue = x.queue[n:]
	return report
}

func (x *simExecutor) ended(t model.ExecTask, outcome model.TaskOutcome) model.TaskResult {
	r := model.TaskResult{ID: t.ID, Attempt: t.Attempt, Outcome: outcome, Value: t.Argument, RuntimeMicro: int64(x.rnd.IntN(20))}
	x.done[t.ID] = r
	return r
}

// simDriver is a driver without a cluster and without a network.
func simDriver(t *testing.T) (d *Driver, news func(model.DriverExecutor)) {
	t.Helper()
	c, err := client.New(client.Config{Masters: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Client: c, Spec: model.AppSpec{Name: "sim", Profile: model.Profile{MemoryMiB: 1}}}
	if d, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	d.app.Store(&rpc.RegisterAppReply{App: testApp})
	d.news.Linked(true)
	ctx, cancel := context.WithCancel(context.Background())
	var joined sync.WaitGroup
	joined.Go(func() { d.pump(ctx) })
	joined.Go(func() {
		l := newLoop(d, noConfirm{})
		d.err = l.run(ctx, nil, nil)
		close(d.done)
		l.abandon()
		d.out.close()
		for _, msg := range d.mail.close() {
			refuse(msg)
		}
	})
	t.Cleanup(func() {
		cancel()
		joined.Wait()
		_ = c.Close()
	})
	return d, d.news.ExecutorChanged
}

// Tasks of a seeded run: executors are lost, streams cut, tasks cancelled, and
// each task has exactly one result, with its own value unless it was cancelled.
func TestSimEachOfManyCallsHasOneResultWhateverIsLost(t *testing.T) {
	t.Parallel()
	const tasks, executors = 20_000, 5
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				d, announce := simDriver(t)
				life, end := context.WithCancel(context.Background())
				var joined sync.WaitGroup
				defer joined.Wait()
				defer end()
				kill := map[model.ExecutorID]context.CancelFunc{}
				next := model.ExecutorID(0)
				launch := func() {
					ctx, cancel := context.WithCancel(life)
					kill[next] = cancel
					announce(model.DriverExecutor{ID: next, Host: "h", Cores: 1 + rnd.IntN(4), State: model.ExecutorRunning, Secret: secretOf(next)})
					x := &simExecutor{
						d: d, id: next, life: ctx, slots: 1, rnd: rand.New(rand.NewPCG(seed, uint64(next)+100)),
						done: map[model.TaskID]model.TaskResult{}, ran: map[string]int{},
					}
					joined.Go(x.run)
					next++
				}
				for range executors {
					launch()
				}
				ids := make(chan model.TaskID, tasks)
				joined.Go(func() {
					for n := 0; n < tasks; {
						batch := make([]Task, min(tasks-n, 1+int(seed)*97))
						for i := range batch {
							batch[i] = Task{Function: "f", Argument: fmt.Append(nil, n+i), Tag: n + i}
						}
						got := make([]model.TaskID, len(batch))
						taken, err := d.SubmitAll(life, batch, got)
						if err != nil {
							t.Errorf("submit: %v", err)
							return
						}
						for _, id := range got[:taken] {
							ids <- id
						}
						n += taken
					}
				})
				seen := make([]int, tasks)
				cancelled := map[model.TaskID]bool{}
				killed, lost := 0, 0
				var known []model.TaskID
				buf := make([]Result, 100)
				limit, stop := context.WithTimeout(context.Background(), time.Hour)
				defer stop()
				for got := 0; got < tasks; {
					n, err := d.Take(limit, buf)
					if err != nil {
						t.Fatalf("%d of %d results came: %v", got, tasks, err)
					}
					got += n
					for _, r := range buf[:n] {
						tag, _ := r.Tag.(int)
						seen[tag]++
						switch {
						case r.Outcome == model.TaskKilled && cancelled[r.ID]:
							killed++
						case r.Outcome != model.TaskDone || string(r.Value) != fmt.Sprint(tag):
							t.Errorf("task %d: %s %q: %s", r.ID, r.Outcome, r.Value, r.Error)
						}
					}
					if rnd.IntN(20) == 0 { // an executor dies
						victim := next - model.ExecutorID(1+rnd.IntN(executors))
						if cancel := kill[victim]; cancel != nil {
							delete(kill, victim)
							if rnd.IntN(2) == 0 {
								cancel()
							}
							announce(model.DriverExecutor{ID: victim, State: model.ExecutorLost})
							defer cancel()
							lost++
							launch()
						}
					}
					if rnd.IntN(4) == 0 {
						var some []model.TaskID
						for len(ids) > 0 {
							known = append(known, <-ids)
						}
						for range min(len(known), rnd.IntN(20)) { // one of the last thousands
							id := known[len(known)-1-rnd.IntN(min(len(known), 4096))]
							some = append(some, id)
							cancelled[id] = true
						}
						if err := d.Cancel(some...); err != nil {
							t.Errorf("cancel: %v", err)
						}
					}
				}
				for tag, n := range seen {
					if n != 1 {
						t.Errorf("task %d has %d results", tag, n)
					}
				}
				if lost == 0 || killed == 0 {
					t.Errorf("%d executors lost, %d tasks cancelled: the run shows nothing", lost, killed)
				}
				if err := d.call(context.Background(), func(l *loop) {
					checkBooks(t, l)
					if l.tasks.Len() != 0 || l.d.out.bytes != 0 {
						t.Errorf("%d tasks and %d bytes remain", l.tasks.Len(), l.d.out.bytes)
					}
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
