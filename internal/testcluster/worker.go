//go:build linux

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// Worker is one worker's machine through all starts of the worker on it. The embedded one is the present start, or the
// last one.
type Worker struct {
	*workerd.Worker
	// Host is its name in the network.
	Host string

	cfg   workerd.Config
	procs *processes
	life  *life
	proc  *process // nil while it is down
}

// Up says whether it was started and neither stopped nor killed since.
func (w *Worker) Up() bool { return w.proc != nil }

// Exited says whether the worker's process has ended by itself.
func (w *Worker) Exited() bool { return w.proc != nil && w.proc.ended() }

// Runs lists the executors whose process lives on the machine, whatever the worker knows.
func (w *Worker) Runs() []model.ExecutorRef { return w.procs.running() }

// Murder kills the process of an executor on the machine with SIGKILL, behind the worker's back. It says whether there was
// one.
func (w *Worker) Murder(ref model.ExecutorRef) bool { return w.procs.murder(ref.String()) }

// Misses is how often the machine was asked to start a command that it does not have.
func (w *Worker) Misses() int {
	w.procs.mu.Lock()
	defer w.procs.mu.Unlock()
	return w.procs.tries
}

// StartWorkers starts n workers with 4 cores and 4 GiB each, and returns at once.
func (c *Cluster) StartWorkers(n int) {
	c.t.Helper()
	for range n {
		host := fmt.Sprintf("w%d", len(c.workers)+1)
		c.StartWorkerOn(host, workerd.Config{Cores: 4, MemoryMiB: 4096})
	}
}

// StartWorkerOn starts a new worker on a machine, which may be a master's. Of cfg, masters, directories and addresses are
// filled in: it knows all masters.
func (c *Cluster) StartWorkerOn(host string, cfg workerd.Config) *Worker {
	c.t.Helper()
	cfg.DataDir = c.dataDir(host)
	cfg.Bind = c.Addr(host)
	cfg.GRPCPort, cfg.SerfPort, cfg.HTTPPort = workerGRPC, workerSerf, workerHTTP
	cfg.Version = "test"
	if len(cfg.Masters) == 0 {
		for i := range max(c.Expect, len(c.masters)) {
			cfg.Masters = append(cfg.Masters, fmt.Sprintf("%s:%d", c.Addr(fmt.Sprintf("m%d", i+1)), masterGRPC))
		}
	}
	w := &Worker{Host: host, cfg: cfg}
	w.procs = newProcesses(host, c.ClockRate, &c.books, programs(func() *simnet.Host { return c.Net.Host(host) }, &c.books, c.log.Named(host)))
	c.workers = append(c.workers, w)
	c.RestartWorker(w)
	return w
}

// RestartWorker starts a worker that is down on what its last start left. Its machine gets power if it has none.
func (c *Cluster) RestartWorker(w *Worker) {
	c.t.Helper()
	if w.Up() {
		c.t.Fatalf("start worker: %s runs", w.Host)
	}
	c.powerOn(w.Host)
	host := c.Net.Restart(c.Net.Host(w.Host).Name())
	w.life = &life{ps: w.procs}
	var err error
	w.Worker, err = workerd.New(w.cfg, workerd.Deps{
		Logger: c.log.Named(w.Host), ExecutorExe: []string{executorProgram}, Network: host, Runner: w.life.open,
		SinceBoot: w.procs.sinceBoot,
	})
	if err != nil {
		c.t.Fatalf("start worker %s: %v", w.Host, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	current := w.Worker
	w.proc = begin(w.Host, cancel, func() error { return current.Run(ctx) })
}

// Worker returns worker i, from 0.
func (c *Cluster) Worker(i int) *Worker { return c.workers[i] }

// Workers returns those that are up.
func (c *Cluster) Workers() []*Worker {
	var out []*Worker
	for _, w := range c.workers {
		if w.Up() {
			out = append(out, w)
		}
	}
	return out
}

// StopWorker is SIGTERM. It waits until the worker has ended.
func (c *Cluster) StopWorker(w *Worker) {
	c.t.Helper()
	p := w.proc
	w.proc = nil
	p.cancel()
	if err := p.join(c.t); err != nil && !errors.Is(err, context.Canceled) { // it was still starting
		c.t.Errorf("stop worker %s: %v", w.Host, err)
	}
}

// HandOver is `hearth worker stop --keep`: what the worker runs waits for its next start. It waits until the worker has
// ended.
func (c *Cluster) HandOver(w *Worker, window time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.Worker.HandOver(ctx, window); err != nil {
		c.t.Fatalf("stop worker %s and keep what it runs: %v", w.Host, err)
	}
	p := w.proc
	w.proc = nil
	if err := p.join(c.t); err != nil {
		c.t.Errorf("stop worker %s and keep what it runs: %v", w.Host, err)
	}
}

// KillWorker is kill -9, on an otherwise idle machine. What the worker ran dies with it.
func (c *Cluster) KillWorker(w *Worker) {
	c.t.Helper()
	synctest.Wait() // files at rest
	w.cfg.DataDir = c.copyDir(w.Host, w.cfg.DataDir)
	c.Net.Crash(w.Host)
	w.life.end()
	c.haunt(w.proc)
	w.proc = nil
}
