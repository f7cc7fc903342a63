package testcluster

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/masterd"
)

const (
	defaultSeeds = 3
	// stopBound is how long the processes of a cluster may take to stop, in virtual time.
	stopBound = 2 * time.Minute
	// restBound is how long a healed cluster may take to come to rest.
	restBound = 90 * time.Second
	// aftermath lets timers of the libraries run out, which would keep the bubble open.
	aftermath = 2 * time.Minute
	// poll is how often a condition is looked at.
	poll = 10 * time.Millisecond
	// maxLogBytes bounds what a failure shows.
	maxLogBytes = 1 << 20

	defaultLatency = simnet.DefaultLatency
)

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewSource(seed)) }

// Cluster is one cluster of one seed. Its methods are for the scenario's goroutine only, unless they say otherwise.
type Cluster struct {
	// Net is the network; hosts are "m1"… for masters, "w1"… for workers, "client", "d1"… for drivers.
	Net *simnet.Network
	// Rand gives the choices of the scenario.
	Rand *rand.Rand
	// Expect is how many masters found a cluster together; StartMasters sets it.
	Expect int
	// WorkerTimeout is how long the leader waits for a silent worker: the default.
	WorkerTimeout time.Duration
	// ClockRate is how fast the clocks of workers' machines run that are started from now on: 1 is the bubble's own. It
	// is for CLOCK_BOOTTIME only, by which leases go.
	ClockRate float64
	// Serial is for the scenario to count with.
	Serial int
	// Tune changes what a master is started with, if it is set.
	Tune func(host string, cfg *masterd.Config, deps *masterd.Deps)

	t       *testing.T
	log     hclog.Logger
	dir     string
	dirs    int // counts data directories
	masters []*Master
	workers []*Worker
	drivers []*Driver
	relays  []*Relay
	clients []*client.Client
	ghosts  []*process      // killed, and not yet wound up
	dark    map[string]bool // machines without power
	books   ledger
}

// Run plays a scenario once per seed, each in a bubble of its own, and checks the cluster at its end.
func Run(t *testing.T, scenario func(t *testing.T, c *Cluster)) {
	t.Helper()
	first, n := Seeds(t, defaultSeeds)
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { RunSeed(t, int64(seed), scenario) })
	}
}

// RunSeed plays a scenario with one seed. Failures that were found with one are kept that way.
func RunSeed(t *testing.T, seed int64, scenario func(t *testing.T, c *Cluster)) {
	t.Helper()
	dir := t.TempDir()
	log := newLog(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: HEARTH_SIM_FIRST_SEED=%d HEARTH_SIM_SEEDS=1 go test -run '%s' (in this package)", seed, topLevel(t.Name()))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{
			t: t, dir: dir, log: log,
			Net:           simnet.New(newRand(seed)),
			Rand:          newRand(seed),
			dark:          make(map[string]bool),
			WorkerTimeout: 10 * time.Second, ClockRate: 1,
		}
		c.books.init()
		// Deferred, because a scenario that fails leaves by runtime.Goexit and everything must end for the bubble to.
		defer func() {
			c.windUp()
			time.Sleep(aftermath)
		}()
		scenario(t, c)
		if !t.Failed() {
			c.Rest()
			c.Check()
		}
	})
}

// Seeds reads which seeds to run from the environment: the first, and how many.
func Seeds(t *testing.T, otherwise int) (first, n int) {
	t.Helper()
	return number(t, "HEARTH_SIM_FIRST_SEED", 0, 0), number(t, "HEARTH_SIM_SEEDS", otherwise, 1)
}

func number(t *testing.T, name string, otherwise, low int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low {
		t.Fatalf("%s=%q: want a number from %d", name, v, low)
	}
	return n
}

func topLevel(name string) string {
	for i, r := range name {
		if r == '/' {
			return "^" + name[:i] + "$"
		}
	}
	return "^" + name + "$"
}

// process is a daemon that runs in this bubble.
type process struct {
	name   string
	cancel func()
	done   chan struct{}
	err    error // read after done
}

func begin(name string, cancel func(), run func() error) *process {
	p := &process{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		p.err = run()
		close(p.done)
	}()
	return p
}

// ended says whether the process is over by itself.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// join waits for a process that was told to stop.
func (p *process) join(t *testing.T) error {
	t.Helper()
	timer := time.NewTimer(stopBound)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		panic(fmt.Sprintf("%s does not stop within %s", p.name, stopBound)) // the stacks say where it hangs
	}
}

// haunt lets a killed process wind up where nobody hears it. Its network is dead already.
func (c *Cluster) haunt(p *process) {
	p.cancel()
	c.ghosts = append(c.ghosts, p)
}

// windUp ends everything. Goodbyes are said all at once.
func (c *Cluster) windUp() {
	c.Net.Heal()
	var all []*process
	for _, d := range c.drivers {
		all = append(all, d.proc)
	}
	for _, w := range c.workers {
		if w.Up() {
			all = append(all, w.proc)
		}
		w.procs.shutdown()
	}
	for _, m := range c.masters {
		if m.Up() {
			all = append(all, m.proc)
		}
	}
	for _, r := range c.relays {
		all = append(all, r.proc)
	}
	for _, p := range all {
		p.cancel()
	}
	for _, p := range all {
		if err := p.join(c.t); err != nil && !c.t.Failed() && !isDriver(c, p) {
			c.t.Errorf("%s: %v", p.name, err)
		}
	}
	for _, p := range c.ghosts {
		_ = p.join(c.t)
	}
	for _, cl := range c.clients {
		if err := cl.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

func isDriver(c *Cluster, p *process) bool {
	for _, d := range c.drivers {
		if d.proc == p {
			return true
		}
	}
	return false
}

// dataDir returns a new directory.
func (c *Cluster) dataDir(host string) string {
	c.dirs++
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d", host, c.dirs))
}

// Fatalf ends the test as failed.
func (c *Cluster) Fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf(format, args...)
}

// Logf writes a line into the log of the cluster, among those of the processes.
func (c *Cluster) Logf(format string, args ...any) {
	c.log.Info("scenario: " + fmt.Sprintf(format, args...))
}

// tail keeps the newest part of a log.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len()+len(p) > maxLogBytes {
		l.buf.Next(max(len(p), maxLogBytes/4))
	}
	return l.buf.Write(p)
}

// newLog is shown only when the test fails.
func newLog(t *testing.T) hclog.Logger {
	t.Helper()
	level := hclog.LevelFromString(os.Getenv("HEARTH_SIM_LOG"))
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	out := &tail{}
	t.Cleanup(func() {
		if t.Failed() {
			out.mu.Lock()
			defer out.mu.Unlock()
			t.Logf("log:\n%s", out.buf.String())
		}
	})
	return hclog.New(&hclog.LoggerOptions{Level: level, Output: out, TimeFormat: "15:04:05.000"})
}
