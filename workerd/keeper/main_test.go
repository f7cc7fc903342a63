//go:build linux

package keeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary plays every part: run with envRole it is a keeper or an agent, so that processes
// can be killed for real.
const (
	envRole   = "KEEPER_TEST_ROLE"
	envChurn  = "KEEPER_TEST_CHURN"
	envTimes  = "KEEPER_TEST_TIMES"
	envKeep   = "KEEPER_TEST_KEEP"
	envFull   = "HEARTH_SIM_FULL" // full counts and times of the field reports
	roleKeep  = "keeper"
	roleAgent = "agent"

	testPatience = 20 * time.Second
	testPoll     = 5 * time.Millisecond
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case roleKeep:
		os.Exit(playKeeper(os.Args[1], os.Args[2]))
	case roleAgent:
		os.Exit(playAgent(os.Args[1], os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

type testTimes struct {
	StuckAfter, OutputWait, FirstContact time.Duration
	LogBytes                             int64
}

func playKeeper(dir, worker string) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if os.Getenv(envChurn) != "" {
		go churnThreads(filepath.Join(dir, churnedFile))
	}
	var times testTimes
	if text := os.Getenv(envTimes); text != "" {
		if err := json.Unmarshal([]byte(text), &times); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	err := Main(ctx, Config{
		StateDir: dir, WorkerID: worker, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug}),
		StuckAfter: times.StuckAfter, OutputWait: times.OutputWait, FirstContact: times.FirstContact,
		LogBytes: times.LogBytes,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	churners       = 10_000          // goroutines that end threads
	churnersAtWork = 16              // at once: the runtime allows 10,000 threads in all
	churnPause     = 5 * time.Second // of each, on average: 2,000 threads end per second
	churnedFile    = "churned"
)

// churnThreads makes OS threads end all the time: a goroutine that ends locked takes its thread.
// How many have ended is noted in a file now and then.
func churnThreads(note string) {
	var ended atomic.Int64
	work := make(chan struct{}, churnersAtWork)
	for range churners {
		go func() {
			for {
				<-time.After(time.Duration(rand.Int64N(int64(2 * churnPause))))
				work <- struct{}{}
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					runtime.LockOSThread()
					_, _ = os.Stat("/proc/self")
				}()
				<-gone
				<-work
				if n := ended.Add(1); n%1000 == 0 {
					_ = os.WriteFile(note, []byte(strconv.FormatInt(n, 10)), 0o600) // the test misses it
				}
			}
		}()
	}
}

// playAgent launches a keeper, starts a driver and four executors that have forked others, says so,
// and hangs; a signal makes it use memory without end.
func playAgent(dir, worker string) int {
	ctx := context.Background()
	greedy := make(chan os.Signal, 1)
	signal.Notify(greedy, unix.SIGUSR1)
	fail := func(err error) int {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	c, err := Launch(ctx, os.Args[0], []string{dir, worker}, LaunchConfig{StateDir: dir, WorkerID: worker, Env: keeperEnv()})
	if err != nil {
		return fail(err)
	}
	for _, key := range agentKeys {
		if _, err := c.Start(ctx, shell(dir, worker, key, familyScript)); err != nil {
			return fail(err)
		}
	}
	if text := os.Getenv(envKeep); text != "" {
		d, err := time.ParseDuration(text)
		if err == nil {
			err = c.Keep(ctx, d)
		}
		if err != nil {
			return fail(err)
		}
	}
	fmt.Fprintln(os.Stdout, "ready", c.Info().Proc.PID)
	<-greedy
	for {
		hoard = append(hoard, bytes.Repeat([]byte{1}, 1<<20)...)
	}
}

// agentKeys are what playAgent runs.
var agentKeys = []string{"app/0", "app/1", "app/2", "app/3", "driver-20261130061500-0001"}

// hoard is what a greedy agent holds.
var hoard []byte

func keeperEnv(extra ...string) []string {
	env := []string{envRole + "=" + roleKeep}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "KEEPER_TEST_") {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// familyScript is a main process with a plain child, a double-forked one and one in a session of
// its own. Each touches NAME when it runs and NAME.term when it gets SIGTERM.
const familyScript = `
cat > member.sh <<'END'
trap 'touch "$1.term"; exit 0' TERM
touch "$1"
while :; do sleep 0.05; done
END
sh member.sh plain &
( ( sh member.sh forked & ) & )
setsid sh member.sh session &
( setsid sh -c 'sh member.sh daemon & exit 0' & )
trap 'touch main.term; exit 7' TERM
touch main
while :; do sleep 0.05; done
`

// familyPause is how long a member sleeps at a time.
const familyPause = 50 * time.Millisecond

var family = []string{"main", "plain", "forked", "session", "daemon"}

// shell returns a request to run a script in a directory of the key's own.
func shell(dir, worker, key, script string) StartRequest {
	work := filepath.Join(dir, "work", key)
	if err := os.MkdirAll(work, 0o700); err != nil {
		panic(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), EnvWorkerID + "=" + worker}
	if app, executor, ok := strings.Cut(key, "/"); ok {
		env = append(env, EnvAppID+"="+app, EnvExecutorID+"="+executor)
	} else {
		env = append(env, EnvDriverID+"="+key, EnvDriverAttempt+"=1")
	}
	return StartRequest{
		Key:  key,
		Argv: []string{"sh", "-c", script},
		Env:  env,
		Dir:  work, Stdout: filepath.Join(work, "stdout"), Stderr: filepath.Join(work, "stderr"),
	}
}

// rig is one worker with a keeper process.
type rig struct {
	t      *testing.T
	dir    string
	worker string
	env    []string
	c      *Client
	exits  map[string]Entry // taken from events so far
	stuck  map[string]Entry
}

func newRig(t *testing.T, env ...string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), worker: "worker-" + filepath.Base(t.TempDir()) + "-" + t.Name(), env: env}
	r.launch()
	t.Cleanup(func() {
		_ = r.c.Close()
		r.gone(r.c.Info().Proc)
		if left, err := Orphans(r.worker); err != nil || len(left) > 0 {
			t.Errorf("processes left behind: %v, %v", left, err)
			_, _ = KillOrphans(context.Background(), r.worker, nil)
		}
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(r.dir, "keeper.log"))
			t.Logf("keeper's log:\n%s", log)
		}
	})
	return r
}

func withTimes(t *testing.T, times testTimes) string {
	t.Helper()
	b, err := json.Marshal(times)
	if err != nil {
		t.Fatal(err)
	}
	return envTimes + "=" + string(b)
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) use(c *Client) {
	r.c, r.exits, r.stuck = c, map[string]Entry{}, map[string]Entry{}
}

func (r *rig) launch() {
	r.t.Helper()
	c, err := Launch(r.ctx(), os.Args[0], []string{r.dir, r.worker},
		LaunchConfig{StateDir: r.dir, WorkerID: r.worker, Env: keeperEnv(r.env...)})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(r.dir, "keeper.log"))
		r.t.Fatalf("launch: %v\n%s", err, log)
	}
	r.use(c)
}

func (r *rig) attach() {
	r.t.Helper()
	c, err := Attach(r.ctx(), SocketPath(r.dir), r.worker)
	if err != nil {
		r.t.Fatal(err)
	}
	r.use(c)
}

func (r *rig) request(key, script string) StartRequest { return shell(r.dir, r.worker, key, script) }

func (r *rig) start(key, script string) Started {
	r.t.Helper()
	started, err := r.c.Start(r.ctx(), r.request(key, script))
	if err != nil {
		r.t.Fatalf("start %s: %v", key, err)
	}
	return started
}

func (r *rig) kill(key string, grace time.Duration) {
	r.t.Helper()
	if err := r.c.Kill(r.ctx(), key, grace); err != nil {
		r.t.Fatalf("kill %s: %v", key, err)
	}
}

// take reads events until done says that it has seen enough.
func (r *rig) take(what string, done func() bool) {
	r.t.Helper()
	deadline := time.After(testPatience)
	for !done() {
		select {
		case ev, ok := <-r.c.Events():
			switch {
			case !ok:
				r.t.Fatalf("connection ended before: %s (%v)", what, r.c.Err())
			case ev.Kind == EventExited:
				r.exits[ev.Entry.Key] = ev.Entry
			case ev.Kind == EventStuck:
				r.stuck[ev.Entry.Key] = ev.Entry
			}
		case <-deadline:
			r.t.Fatalf("not within %v: %s", testPatience, what)
		}
	}
}

func (r *rig) exit(key string) Exit {
	r.t.Helper()
	r.take("exit of "+key, func() bool { return r.exits[key].Exit != nil })
	return *r.exits[key].Exit
}

func (r *rig) list() []Entry {
	r.t.Helper()
	entries, err := r.c.List(r.ctx())
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

func (r *rig) entry(key string) Entry {
	r.t.Helper()
	all := r.list()
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Key == key })
	if i < 0 {
		r.t.Fatalf("%s is not listed", key)
	}
	return all[i]
}

// file is the path of a file in the directory of key.
func (r *rig) file(key, name string) string { return filepath.Join(r.dir, "work", key, name) }

func (r *rig) waitFiles(key string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		poll(r.t, key+" makes file "+name, func() bool {
			_, err := os.Stat(r.file(key, name))
			return err == nil
		})
	}
}

func (r *rig) content(path string) string {
	r.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func (r *rig) gone(p Proc) { r.t.Helper(); waitGone(r.t, p) }

func waitGone(t *testing.T, p Proc) {
	t.Helper()
	poll(t, fmt.Sprintf("process %d ends", p.PID), func() bool {
		running, err := IsRunning(p)
		return err == nil && !running
	})
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(testPoll)
	defer tick.Stop()
	deadline := time.After(testPatience)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", testPatience, what)
		}
	}
}

// workerProcs lists what runs with the worker's marker, the keeper not among it.
func workerProcs(t *testing.T, worker string) []Proc {
	t.Helper()
	procs, err := Orphans(worker)
	if err != nil {
		t.Fatal(err)
	}
	return procs
}

func signalIt(t *testing.T, p Proc, sig unix.Signal) {
	t.Helper()
	if err := signalProc(procID{p.PID, p.StartTicks}, sig); err != nil {
		t.Fatal(err)
	}
}

func firstLine(f *os.File) string {
	line, _ := bufio.NewReader(f).ReadString('\n')
	return strings.TrimSpace(line)
}

func diff(t *testing.T, what string, got, want any, opts ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
