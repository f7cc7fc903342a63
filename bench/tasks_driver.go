package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
)

// echoFunction is what the tasks of the benchmark call.
const echoFunction = "hearth.echo"

// Functions are those that the ordinary executor of the hearth binary knows: one
// that returns its argument, to measure what a task costs.
func Functions() map[string]executor.Function {
	return map[string]executor.Function{
		echoFunction: func(_ context.Context, arg []byte) ([]byte, error) { return arg, nil },
	}
}

// taskDriver is a driver with its executors. One goroutine uses it.
type taskDriver struct {
	drv     *driver.Driver
	cancel  context.CancelFunc
	ended   chan struct{} // closed when it has ended
	err     error         // why; after ended
	payload []byte
	tasks   []driver.Task
	results []driver.Result
}

// startTaskDriver registers an application and waits for its executors; batch
// bounds the tasks in one message.
func startTaskDriver(ctx context.Context, c *client.Client, batch int) (*taskDriver, error) {
	ready := make(chan struct{}, taskExecutors)
	drv, err := driver.New(driver.Config{
		Client: c, Spec: taskSpec(batch), MaxBatch: batch,
		Observer: func(e driver.Event) {
			if e.Kind == driver.EventExecutorReady {
				select {
				case ready <- struct{}{}:
				default: // one that has replaced another
				}
			}
		},
	})
	if err != nil {
		return nil, err
	}
	rctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &taskDriver{
		drv: drv, cancel: cancel, ended: make(chan struct{}), payload: make([]byte, payloadBytes),
		tasks: make([]driver.Task, taskWindow), results: make([]driver.Result, taskWindow),
	}
	for i := range d.tasks {
		d.tasks[i] = driver.Task{Function: echoFunction, Argument: d.payload}
	}
	go func() {
		defer close(d.ended)
		d.err = drv.Run(rctx)
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	for range taskExecutors {
		select {
		case <-ready:
		case <-d.ended:
			d.stop(ctx)
			return nil, fmt.Errorf("the driver has ended before its executors were there: %w", d.err)
		case <-limit.C:
			d.stop(ctx)
			return nil, fmt.Errorf("no %d executors within %s", taskExecutors, startLimit)
		case <-ctx.Done():
			d.stop(ctx)
			return nil, ctx.Err()
		}
	}
	return d, nil
}

// stop ends the application, and with it the executors, even if ctx has ended.
func (d *taskDriver) stop(ctx context.Context) {
	if d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	_ = d.drv.Finish(ctx, model.AppFinished, "", 0) // it may have ended
	d.cancel()
	<-d.ended
}

// pids are the processes of the executors.
func (d *taskDriver) pids(ctx context.Context) []int {
	var out []int
	for _, e := range d.drv.Executors(ctx) {
		out = append(out, e.PID)
	}
	return out
}

// rate does n tasks with up to taskWindow on the way and returns how many it did
// in a second.
func (d *taskDriver) rate(ctx context.Context, n int) (float64, error) {
	begin := time.Now()
	for sent, taken := 0, 0; taken < n; {
		if more := min(n-sent, taskWindow-(sent-taken)); more > 0 {
			if _, err := d.drv.SubmitAll(ctx, d.tasks[:more], nil); err != nil {
				return 0, err
			}
			sent += more
		}
		got, err := d.take(ctx)
		if err != nil {
			return 0, err
		}
		taken += got
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

// roundTrips does n tasks one after the other and returns how many microseconds
// each took.
func (d *taskDriver) roundTrips(ctx context.Context, n int) ([]float64, error) {
	took := make([]float64, 0, n)
	for range n {
		begin := time.Now()
		if _, err := d.drv.Submit(ctx, d.tasks[0]); err != nil {
			return took, err
		}
		if got, err := d.take(ctx); err != nil || got != 1 {
			return took, errors.Join(err, fmt.Errorf("%d results of one task", got))
		}
		took = append(took, time.Since(begin).Seconds()*micros)
	}
	return took, nil
}

// take waits for results and looks at them.
func (d *taskDriver) take(ctx context.Context) (int, error) {
	n, err := d.drv.Take(ctx, d.results)
	if err != nil {
		return n, fmt.Errorf("wait for results: %w", err)
	}
	for i := range d.results[:n] {
		if r := &d.results[i]; r.Outcome != model.TaskDone || len(r.Value) != payloadBytes {
			return n, fmt.Errorf("task %d: %s, %d bytes: %s", r.ID, r.Outcome, len(r.Value), r.Error)
		}
	}
	return n, nil
}
