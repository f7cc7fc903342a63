//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/unixsocket"
)

// agentProcess is an agent in a process of its own, with a keeper and five families.
type agentProcess struct {
	dir, worker string
	cmd         *exec.Cmd
	keeper      Proc
}

func startAgent(t *testing.T, env ...string) *agentProcess {
	t.Helper()
	a := &agentProcess{dir: t.TempDir(), worker: "worker-of-" + t.Name()}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	a.cmd = exec.Command(os.Args[0], a.dir, a.worker)
	a.cmd.Env = append(append(os.Environ(), envRole+"="+roleAgent), env...)
	a.cmd.Stdout = in
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill(); _ = a.cmd.Wait() })
	_ = in.Close()
	pid := 0
	if _, err := fmt.Sscanf(firstLine(out), "ready %d", &pid); err != nil {
		t.Fatalf("agent does not come up: %v", err)
	}
	a.keeper = procOf(t, pid)
	for _, key := range agentKeys {
		for _, name := range family {
			path := filepath.Join(a.dir, "work", key, name)
			poll(t, path, func() bool { _, err := os.Stat(path); return err == nil })
		}
	}
	return a
}

// procOf identifies a living process.
func procOf(t *testing.T, pid int) Proc {
	t.Helper()
	stat, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	return Proc{PID: stat.pid, StartTicks: stat.start, BootID: boot}
}

// membersOf lists the members of families. They sleep by processes that come and go: what is there
// twice with a pause between is no such one.
func membersOf(t *testing.T, worker string) []Proc {
	t.Helper()
	first := workerProcs(t, worker)
	<-time.After(familyPause * 10)
	return slices.DeleteFunc(workerProcs(t, worker), func(p Proc) bool { return !slices.Contains(first, p) })
}

// theWaysAnAgentDies end it without a word.
var theWaysAnAgentDies = map[string]func(*testing.T, *agentProcess){
	"killed": func(t *testing.T, a *agentProcess) {
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = a.cmd.Wait()
	},
	"out of memory": func(t *testing.T, a *agentProcess) {
		cage := newMemoryCage(t, 64)
		cage.take(t, a.cmd.Process.Pid) // alone: its keeper stays outside
		if err := a.cmd.Process.Signal(unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		_ = a.cmd.Wait()
		if n := cage.kills(t); n != 1 {
			t.Fatalf("the kernel has killed %d processes for want of memory, want the agent", n)
		}
	},
}

// One driver and four executors, each with children of its own.
func TestPR06WhenTheAgentDiesAllItsProcessesEndWithinFiveSeconds(t *testing.T) {
	for name, die := range theWaysAnAgentDies {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t)
			die(t, a)
			died := time.Now()
			waitGone(t, a.keeper)
			diff(t, "left", workerProcs(t, a.worker), []Proc(nil))
			if took := time.Since(died); took > 5*time.Second {
				t.Errorf("took %v, want at most 5 s", took)
			}
			// The next keeper knows how they ended.
			entries, note := savedExits(t, a.dir)
			if note != "" || len(entries) != len(agentKeys) {
				t.Errorf("exits on disk: %v, note %q, want %d", entries, note, len(agentKeys))
			}
		})
	}
}

// The same deaths after the agent has said that its processes are to be kept.
func TestPR06WhatIsKeptIsAdoptedWithTheSameProcesses(t *testing.T) {
	for name, die := range theWaysAnAgentDies {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, envKeep+"=1m")
			before := membersOf(t, a.worker)
			if want := len(agentKeys) * len(family); len(before) < want {
				t.Fatalf("%d processes run, want at least %d", len(before), want)
			}
			die(t, a)
			ctx, cancel := context.WithTimeout(t.Context(), testPatience)
			defer cancel()
			c, err := Attach(ctx, SocketPath(a.dir), a.worker)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "keeper", c.Info().Proc, a.keeper)
			entries, err := c.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			running := map[Proc]bool{}
			for _, p := range before {
				running[p] = true
			}
			diff(t, "keys adopted", len(entries), len(agentKeys))
			for _, e := range entries {
				if e.State != StateRunning || e.Killing || !running[e.Proc] {
					t.Errorf("%s was not adopted as it was: %+v", e.Key, e)
				}
			}
			for _, p := range before {
				if ok, err := IsRunning(p); !ok || err != nil {
					t.Errorf("process %d did not outlive the agent (%v)", p.PID, err)
				}
			}
			_ = c.Close() // without a Keep
			waitGone(t, a.keeper)
			diff(t, "left in the end", workerProcs(t, a.worker), []Proc(nil))
		})
	}
}

// PR-07: the parent-death signal belongs to the thread that forked.
func TestPR07EndingThreadsEndNoChildAndTheKeepersDeathEndsAll(t *testing.T) {
	const children = 50
	churn := time.Duration(0) // until as many threads have ended as there are goroutines
	if os.Getenv(envFull) != "" {
		churn = 10 * time.Minute
	}
	r := newRig(t, envChurn+"=1")
	var procs []Proc
	for i := range children {
		procs = append(procs, r.start(fmt.Sprintf("a/%d", i), "exec sleep 3000").Proc)
	}
	begun := time.Now()
	deadline := time.After(churn + 2*time.Minute)
	tick := time.NewTicker(testPoll)
	defer tick.Stop()
	ended := 0
	for ended < churners || time.Since(begun) < churn {
		select {
		case ev := <-r.c.Events():
			t.Fatalf("a healthy child ended after %v and %d threads: %+v", time.Since(begun), ended, ev)
		case <-tick.C:
			if text, err := os.ReadFile(filepath.Join(r.dir, churnedFile)); err == nil {
				_, _ = fmt.Sscan(string(text), &ended) // a file half written is read again
			}
		case <-deadline:
			t.Fatalf("only %d threads have ended: the test shows too little", ended)
		}
	}
	t.Logf("%d threads ended in %v", ended, time.Since(begun).Round(time.Millisecond))
	for _, p := range procs {
		stillThere(t, p)
	}
	begun = time.Now()
	signalIt(t, r.c.Info().Proc, unix.SIGKILL)
	for _, p := range procs {
		r.gone(p)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("children ended after %v, want at most 2 s", took)
	}
	<-r.c.Done()
	_, err := r.c.List(r.ctx())
	if !errors.Is(err, ErrDisconnected) {
		t.Errorf("list on a dead keeper: %v, want %v", err, ErrDisconnected)
	}
}

// PR-01: what the keeper could not take along is found by its environment.
func TestOrphansOfAKilledKeeperAreFoundAndStrangersAreNot(t *testing.T) {
	r := newRig(t)
	stranger := startStranger(t, EnvWorkerID+"="+r.worker+"-other")
	r.start("a/0", familyScript)
	r.waitFiles("a/0", family...)
	signalIt(t, r.c.Info().Proc, unix.SIGKILL)
	r.gone(r.c.Info().Proc)
	poll(t, "only the children of the main process are left", func() bool {
		left := workerProcs(t, r.worker)
		for _, p := range left {
			if p.PID == stranger.PID {
				t.Fatal("the stranger is taken for an orphan")
			}
		}
		return len(left) >= 3
	})
	killed, err := KillOrphans(r.ctx(), r.worker, nil)
	if err != nil || len(killed) < 3 {
		t.Errorf("killed %v, %v, want the 4 others of the family", killed, err)
	}
	diff(t, "left", workerProcs(t, r.worker), []Proc(nil))
	stillThere(t, stranger)
	r.launch() // the state directory is free again
	diff(t, "list", r.list(), []Entry(nil))
}

func startStranger(t *testing.T, env ...string) Proc {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return procOf(t, cmd.Process.Pid)
}

func stillThere(t *testing.T, p Proc) {
	t.Helper()
	if ok, err := IsRunning(p); !ok || err != nil {
		t.Errorf("the stranger is gone (%v)", err)
	}
}

// PR-10, PR-19: a planned restart of the agent.
func TestAKeptChildIsAdoptedAndEveryExitIsKnown(t *testing.T) {
	r := newRig(t)
	lives := r.start("a/0", "exec sleep 300")
	r.start("a/1", "exit 11")
	r.exit("a/1")
	r.start("a/2", "while [ ! -e go ]; do sleep 0.02; done; exit 12")
	if err := r.c.Keep(r.ctx(), time.Minute); err != nil {
		t.Fatal(err)
	}
	keeper := r.c.Info().Proc
	_ = r.c.Close()
	if err := os.WriteFile(r.file("a/2", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the exit is on disk while nobody is attached", func() bool {
		entries, _ := savedExits(t, r.dir)
		return slices.ContainsFunc(entries, func(e Entry) bool { return e.Key == "a/2" })
	})
	r.attach()
	poll(t, "the keeper has taken note that the exit is on disk", func() bool { return r.entry("a/2").Exit != nil })
	diff(t, "keeper", r.c.Info().Proc, keeper)
	diff(t, "adopted", r.entry("a/0"), Entry{Key: "a/0", State: StateRunning, Proc: lives.Proc})
	diff(t, "exit before", r.entry("a/1").Exit.Code, 11)
	diff(t, "exit meanwhile", r.entry("a/2").Exit.Code, 12)
	r.kill("a/0", time.Second)
	diff(t, "signal", r.exit("a/0").Signal, 15)
	// The Keep ended with the attach.
	r.start("a/3", "exec sleep 300")
	_ = r.c.Close()
	r.gone(keeper)
}

func TestAKeepThatRunsOutEndsEverything(t *testing.T) {
	r := newRig(t)
	p := r.start("a/0", "exec sleep 300")
	if err := r.c.Keep(r.ctx(), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	_ = r.c.Close()
	r.gone(p.Proc)
	r.gone(r.c.Info().Proc)
}

func TestAKeepCanBeTakenBack(t *testing.T) {
	r := newRig(t)
	p := r.start("a/0", "exec sleep 300")
	for _, d := range []time.Duration{time.Hour, 0} {
		if err := r.c.Keep(r.ctx(), d); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.c.Close()
	r.gone(p.Proc)
}

func TestExitsSurviveTheKeeperUntilForgotten(t *testing.T) {
	r := newRig(t)
	p := r.start("app-20261130061500-0003/3", "exit 33")
	r.exit("app-20261130061500-0003/3")
	want := r.list()
	diff(t, "process", want[0].Proc, p.Proc)
	signalIt(t, r.c.Info().Proc, unix.SIGKILL)
	r.gone(r.c.Info().Proc)
	r.launch()
	diff(t, "list of the next keeper", r.list(), want)
	if err := r.c.Forget(r.ctx(), "app-20261130061500-0003/3"); err != nil {
		t.Fatal(err)
	}
	diff(t, "list after forget", r.list(), []Entry(nil))
	_ = r.c.Close()
	r.gone(r.c.Info().Proc)
	r.launch()
	diff(t, "list of the third keeper", r.list(), []Entry(nil))
}

func TestANewerAgentReplacesTheOlder(t *testing.T) {
	r := newRig(t)
	p := r.start("a/0", "exec sleep 300")
	older := r.c
	r.attach()
	select {
	case <-older.Done():
	case <-time.After(testPatience):
		t.Fatal("the older connection stays open")
	}
	_ = older.Close()
	if _, err := older.List(r.ctx()); !errors.Is(err, ErrDisconnected) {
		t.Errorf("list of the replaced agent: %v", err)
	}
	diff(t, "running", r.entry("a/0").Proc, p.Proc)
}

func TestAnAgentOfAnotherWorkerIsRefusedWithoutHarm(t *testing.T) {
	r := newRig(t)
	r.start("a/0", "exec sleep 300")
	_, err := Attach(r.ctx(), SocketPath(r.dir), "worker-other")
	diff(t, "reason", ReasonOf(err), ReasonWrongWorker)
	diff(t, "state", r.entry("a/0").State, StateRunning)
}

func TestGarbageOnTheSocketHarmsNobody(t *testing.T) {
	r := newRig(t)
	r.start("a/0", "exec sleep 300")
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x02{}", "\xff\xff\xff\xff", "\x00\x00\x00\x00"} {
		c, err := unixsocket.Dial(r.ctx(), SocketPath(r.dir))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(garbage))
		_ = c.SetReadDeadline(time.Now().Add(testPatience))
		if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: read %d, %v, want a closed connection", garbage, n, err)
		}
		_ = c.Close()
	}
	diff(t, "state", r.entry("a/0").State, StateRunning)
}

func TestShutdownEndsAllAndReportsAll(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.start(fmt.Sprintf("a/%d", i), "trap 'exit 4' TERM; touch up; while :; do sleep 0.02; done")
		r.waitFiles(fmt.Sprintf("a/%d", i), "up")
	}
	if err := r.c.Shutdown(r.ctx(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	r.take("all exits", func() bool { return len(r.exits) == 5 })
	for key, e := range r.exits {
		diff(t, key, *e.Exit, Exit{Code: 4, KillRequested: true}, cmpopts.IgnoreFields(Exit{}, "Time"))
	}
	r.gone(r.c.Info().Proc)
	if _, err := os.Stat(SocketPath(r.dir)); err == nil {
		t.Error("the socket stays")
	}
}

func TestASignalToTheKeeperEndsChildrenWithGrace(t *testing.T) {
	r := newRig(t)
	r.start("a/0", "trap 'exit 4' TERM; touch up; while :; do sleep 0.02; done")
	r.waitFiles("a/0", "up")
	signalIt(t, r.c.Info().Proc, unix.SIGTERM)
	diff(t, "code", r.exit("a/0").Code, 4)
	r.gone(r.c.Info().Proc)
}

func TestASecondKeeperWaitsAndThenGivesUp(t *testing.T) {
	r := newRig(t)
	s, err := New(Config{StateDir: r.dir, WorkerID: r.worker})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "another keeper") {
		t.Errorf("run beside a living keeper: %v", err)
	}
	diff(t, "first keeper", r.list(), []Entry(nil))
}

func TestAKeeperThatNobodyCallsEnds(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], dir, "worker-lonely")
	cmd.Env = keeperEnv(withTimes(t, testTimes{FirstContact: 50 * time.Millisecond}))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "never came") {
		t.Errorf("keeper ended with %v:\n%s", err, out)
	}
}

func TestAKeeperThatCannotStartIsReported(t *testing.T) {
	dir := t.TempDir()
	_, err := Launch(t.Context(), "/bin/false", nil, LaunchConfig{StateDir: dir, WorkerID: "w"})
	if err == nil || !strings.Contains(err.Error(), "keeper.log") {
		t.Errorf("launch: %v, want an error that names the log", err)
	}
	if _, err := Launch(t.Context(), "/no/such", nil, LaunchConfig{StateDir: dir, WorkerID: "w"}); err == nil {
		t.Error("launch of nothing succeeds")
	}
}

func TestALongStateDirectoryWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	r := &rig{t: t, dir: dir, worker: "worker-long"}
	r.launch()
	r.start("a/0", "exit 1")
	diff(t, "code", r.exit("a/0").Code, 1)
	_ = r.c.Close()
	r.gone(r.c.Info().Proc)
}
