//go:build linux

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

func TestExitCodesAndSignalsAreKnown(t *testing.T) {
	r := newRig(t)
	for key, c := range map[string]struct {
		name   string
		script string
		want   Exit
	}{
		"a/0": {"a clean exit has code 0", "exit 0", Exit{Code: 0}},
		"a/1": {"a failure keeps its code", "exit 42", Exit{Code: 42}},
		"a/2": {"a signal is told from a code", "kill -9 $$", Exit{Code: -1, Signal: 9}},
		"a/3": {"a code above 128 is no signal", "exit 137", Exit{Code: 137}},
		"a/4": {"the terminating signal is named", "kill -15 $$", Exit{Code: -1, Signal: 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			started := r.start(key, c.script)
			got := r.exit(key)
			diff(t, "exit", got, c.want, cmpopts.IgnoreFields(Exit{}, "Time"))
			if age := time.Since(got.Time); age < 0 || age > testPatience {
				t.Errorf("exit at %v, %v ago", got.Time, age)
			}
			diff(t, "process in event", r.exits[key].Proc, started.Proc)
			diff(t, "list has what the event had", r.entry(key), r.exits[key])
		})
	}
	r.t = t
}

func TestAProcessGetsExactlyWhatWasAsked(t *testing.T) {
	r := newRig(t)
	req := r.request("a/0", `cat; env; pwd; echo "to stderr" >&2`)
	req.Argv = []string{"/bin/sh", "-c", req.Argv[2]}
	req.Header = "hearth: command\n" + strings.Repeat("=", 40) + "\n"
	if _, err := r.c.Start(r.ctx(), req); err != nil {
		t.Fatal(err)
	}
	r.exit("a/0")
	got := map[string]bool{}
	for line := range strings.Lines(r.content(req.Stdout)) {
		got[strings.TrimSpace(line)] = true
	}
	want := map[string]bool{req.Dir: true, "PWD=" + req.Dir: true}
	for _, kv := range req.Env {
		want[kv] = true
	}
	delete(got, "_=/usr/bin/env") // the shell's own
	diff(t, "environment and directory", got, want)
	diff(t, "stderr", r.content(req.Stderr), req.Header+"to stderr\n")
	for path, want := range map[string]os.FileMode{
		req.Stdout: 0o600, req.Stderr: 0o600, r.dir: os.ModeDir | 0o700,
		SocketPath(r.dir): os.ModeSocket | 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "mode of "+path, info.Mode(), want)
	}
}

func TestAProcessThatCannotStartSaysWhy(t *testing.T) {
	r := newRig(t)
	text := filepath.Join(r.dir, "text")
	garbage := filepath.Join(r.dir, "garbage")
	dangling := filepath.Join(r.dir, "dangling")
	for path, c := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		text: {"hello", 0o600}, garbage: {"\x01\x02\x03", 0o700}, dangling: {"#!/no/such/interpreter\n", 0o700},
	} {
		if err := os.WriteFile(path, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
	}
	r.start("live/0", "sleep 60")
	for i, c := range []struct {
		name   string
		change func(*StartRequest)
		want   Reason
	}{
		{"a command that is in no directory of PATH", func(q *StartRequest) { q.Argv[0] = "no-such-command" }, ReasonCommandNotFound},
		{"a path that does not exist", func(q *StartRequest) { q.Argv[0] = "/no/such" }, ReasonCommandNotFound},
		{"a file without execute permission", func(q *StartRequest) { q.Argv[0] = text }, ReasonNotExecutable},
		{"a directory", func(q *StartRequest) { q.Argv[0] = "/" }, ReasonNotExecutable},
		{"a file that is no program", func(q *StartRequest) { q.Argv[0] = garbage }, ReasonNotExecutable},
		{"a script without its interpreter", func(q *StartRequest) { q.Argv[0] = dangling }, ReasonCommandNotFound},
		{"a directory that does not exist", func(q *StartRequest) { q.Dir = "/no/such" }, ReasonBadDirectory},
		{"output into a directory that does not exist", func(q *StartRequest) { q.Stdout = "/no/such/stdout" }, ReasonOutputFailed},
		{"output into a device", func(q *StartRequest) { q.Stderr = "/dev/null" }, ReasonOutputFailed},
		{"an environment of another worker", func(q *StartRequest) { q.Env = append(q.Env, EnvWorkerID+"=other") }, ReasonInvalid},
		{"an environment without an executor", func(q *StartRequest) { q.Env = q.Env[:3] }, ReasonInvalid},
		{"a word with a NUL", func(q *StartRequest) { q.Argv = append(q.Argv, "a\x00b") }, ReasonInvalid},
		{"a word that is not UTF-8", func(q *StartRequest) { q.Argv = append(q.Argv, "a\xff") }, ReasonInvalid},
		{"a relative directory", func(q *StartRequest) { q.Dir = "work" }, ReasonInvalid},
		{"a key with a blank", func(q *StartRequest) { q.Key = "a b" }, ReasonInvalid},
		{"a key in use", func(q *StartRequest) { q.Key = "live/0" }, ReasonDuplicateKey},
		{"the identity of a running process", func(q *StartRequest) {
			q.Env = append(q.Env, EnvAppID+"=live", EnvExecutorID+"=0")
		}, ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := r.request(fmt.Sprintf("bad/%d", i), "exit 0")
			c.change(&req)
			_, err := r.c.Start(r.ctx(), req)
			diff(t, fmt.Sprintf("reason of %v", err), ReasonOf(err), c.want)
		})
	}
	if got := r.list(); len(got) != 1 {
		t.Errorf("entries after refusals: %v, want only live/0", got)
	}
	if got := r.content(r.file("bad/0", "stderr")); !strings.Contains(got, "no-such-command") {
		t.Errorf("stderr %q does not say what is missing", got)
	}
}

func TestUnknownKeysAndWrongStatesAreRefused(t *testing.T) {
	r := newRig(t)
	r.start("a/0", "sleep 60")
	diff(t, "kill", ReasonOf(r.c.Kill(r.ctx(), "no", 0)), ReasonUnknownKey)
	diff(t, "signal", ReasonOf(r.c.Signal(r.ctx(), "no", unix.SIGUSR1)), ReasonUnknownKey)
	diff(t, "signal 0", ReasonOf(r.c.Signal(r.ctx(), "a/0", 0)), ReasonInvalid)
	diff(t, "forget running", ReasonOf(r.c.Forget(r.ctx(), "a/0")), ReasonStillRunning)
	diff(t, "forget unknown", r.c.Forget(r.ctx(), "no"), nil)
	diff(t, "grace", ReasonOf(r.c.Kill(r.ctx(), "a/0", 2*MaxGrace)), ReasonInvalid)
	diff(t, "keep", ReasonOf(r.c.Keep(r.ctx(), 2*MaxKeep)), ReasonInvalid)
	r.kill("a/0", 0)
	r.exit("a/0")
	r.kill("a/0", 0) // again is no error
	diff(t, "signal exited", ReasonOf(r.c.Signal(r.ctx(), "a/0", unix.SIGUSR1)), ReasonNotRunning)
}

func TestASignalReachesTheMainProcess(t *testing.T) {
	r := newRig(t)
	r.start("a/0", `trap 'exit 9' USR1; touch up; while :; do sleep 0.02; done`)
	r.waitFiles("a/0", "up")
	if err := r.c.Signal(r.ctx(), "a/0", unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	diff(t, "exit", r.exit("a/0"), Exit{Code: 9}, cmpopts.IgnoreFields(Exit{}, "Time"))
}

// PR-09: a shell with sleepers, one double-forked, one with setsid.
func TestPR09AKillSendsTermToTheWholeFamilyAndLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.start("a/0", familyScript)
	r.start("a/1", familyScript)
	r.waitFiles("a/0", family...)
	r.waitFiles("a/1", family...)
	begun := time.Now()
	r.kill("a/0", 10*time.Second)
	got := r.exit("a/0")
	diff(t, "exit", got, Exit{Code: 7, KillRequested: true}, cmpopts.IgnoreFields(Exit{}, "Time"))
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a family that obeys took %v", took)
	}
	for _, name := range family {
		if _, err := os.Stat(r.file("a/0", name+".term")); err != nil {
			t.Errorf("%s did not get SIGTERM: %v", name, err)
		}
	}
	for _, p := range workerProcs(t, r.worker) {
		for _, kv := range readEnviron(p.PID) {
			if kv == EnvExecutorID+"=0" {
				t.Errorf("process %d of a/0 is left", p.PID)
			}
		}
	}
	for _, name := range family {
		if _, err := os.Stat(r.file("a/1", name+".term")); err == nil {
			t.Errorf("%s of the other executor got SIGTERM", name)
		}
	}
	diff(t, "other executor", r.entry("a/1").State, StateRunning)
}

func TestPR09WhatIgnoresTermIsGoneTwoSecondsAfterTheGrace(t *testing.T) {
	r := newRig(t)
	r.start("a/0", `trap '' TERM; (setsid sleep 300 &); touch up; while :; do sleep 1; done`)
	r.waitFiles("a/0", "up")
	const grace = 300 * time.Millisecond
	begun := time.Now()
	r.kill("a/0", grace)
	r.kill("a/0", time.Hour) // a later request does not prolong
	got := r.exit("a/0")
	took := time.Since(begun)
	diff(t, "exit", got, Exit{Code: -1, Signal: 9, KillRequested: true}, cmpopts.IgnoreFields(Exit{}, "Time"))
	if took < grace || took > grace+2*time.Second {
		t.Errorf("gone after %v, want %v to %v", took, grace, grace+2*time.Second)
	}
	diff(t, "left", workerProcs(t, r.worker), []Proc(nil))
}

func TestAStoppedProcessObeysAKill(t *testing.T) {
	r := newRig(t)
	p := r.start("a/0", `trap 'exit 3' TERM; touch up; while :; do sleep 0.02; done`)
	r.waitFiles("a/0", "up")
	signalIt(t, p.Proc, unix.SIGSTOP)
	r.kill("a/0", 10*time.Second)
	diff(t, "code", r.exit("a/0").Code, 3)
}

func TestLeftoversEndWithTheMainProcess(t *testing.T) {
	r := newRig(t)
	r.start("a/0", `trap '' TERM; sleep 300 & (setsid sleep 300 &) ; env -i sleep 300 & sleep 0.1; exit 5`)
	diff(t, "exit", r.exit("a/0"), Exit{Code: 5}, cmpopts.IgnoreFields(Exit{}, "Time"))
	diff(t, "left", workerProcs(t, r.worker), []Proc(nil))
	poll(t, "the keeper has no children", func() bool { return len(below(t, r.c.Info().Proc.PID)) == 0 })
}

// A process that has wiped its environment and left its session is still known by its descent.
func TestAWipedEnvironmentDoesNotHideAChild(t *testing.T) {
	r := newRig(t)
	r.start("a/0", `env -i setsid sh -c 'echo $$ > pid; touch up; exec sleep 300' & wait`)
	r.waitFiles("a/0", "up")
	var pid int
	if _, err := fmt.Sscan(r.content(r.file("a/0", "pid")), &pid); err != nil {
		t.Fatal(err)
	}
	r.start("a/1", "exec sleep 300") // so that the child could belong to either
	r.kill("a/0", 0)
	r.exit("a/0")
	if child, err := readStat(pid); err == nil && !child.dead() {
		t.Errorf("child %d runs on after the exit was reported", pid)
	}
}

func below(t *testing.T, pid int) []procStat {
	t.Helper()
	procs, err := scanProcs()
	if err != nil {
		t.Fatal(err)
	}
	var found []procStat
	for _, p := range procs {
		if p.ppid == pid {
			found = append(found, p)
		}
	}
	return found
}

func TestOfTwoHundredQuickProcessesNoneIsLost(t *testing.T) {
	const count = 200
	r := newRig(t)
	for i := range count {
		r.start(fmt.Sprintf("a/%d", i), fmt.Sprintf("exit %d", i%100))
	}
	r.take("all exits", func() bool { return len(r.exits) == count })
	for i := range count {
		key := fmt.Sprintf("a/%d", i)
		diff(t, key, r.exits[key].Exit.Code, i%100)
	}
	if saved, note := savedExits(t, r.dir); len(saved) != count || note != "" {
		t.Errorf("%d exits are written, note %q, want %d", len(saved), note, count)
	}
	for i := range count {
		if err := r.c.Forget(r.ctx(), fmt.Sprintf("a/%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, "list", r.list(), []Entry(nil))
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.c.Info().Proc.PID)); err != nil || len(fds) > 30 {
		t.Errorf("the keeper has %d descriptors open, %v", len(fds), err)
	}
}

// The pipe is held by a process outside the keeper's tree, here the test itself.
func TestAHeldPipeDoesNotHoldUpTheReport(t *testing.T) {
	const outputWait = 200 * time.Millisecond
	r := newRig(t, withTimes(t, testTimes{OutputWait: outputWait}))
	p := r.start("a/0", "echo before; touch up; while [ ! -e go ]; do sleep 0.02; done")
	r.waitFiles("a/0", "up")
	for _, fd := range []int{1, 2} {
		pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pipe.Close() }()
	}
	if err := os.WriteFile(r.file("a/0", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.exit("a/0")
	diff(t, "stdout", r.content(r.file("a/0", "stdout")), "before\n")
}

func TestOutputRotates(t *testing.T) {
	r := newRig(t)
	req := r.request("a/0", `i=0; while [ $i -lt 1000 ]; do echo "line $i"; i=$((i+1)); done`)
	req.Rotation = Rotation{MaxBytes: MinRotateBytes, KeepFiles: 3}
	if _, err := r.c.Start(r.ctx(), req); err != nil {
		t.Fatal(err)
	}
	r.exit("a/0")
	all := r.content(req.Stdout+".2") + r.content(req.Stdout+".1") + r.content(req.Stdout)
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("line %d", 1000-len(lines)+i); line != want {
			t.Fatalf("line %d of the kept output is %q, want %q", i, line, want)
		}
	}
	if _, err := os.Stat(req.Stdout + ".3"); err == nil {
		t.Error("a fourth file is kept")
	}
}

func TestWithoutRotationOutputGoesStraightToTheFile(t *testing.T) {
	r := newRig(t)
	req := r.request("a/0", `readlink /proc/$$/fd/1; echo more`)
	req.Rotation.Disabled = true
	if _, err := r.c.Start(r.ctx(), req); err != nil {
		t.Fatal(err)
	}
	r.exit("a/0")
	diff(t, "stdout", r.content(req.Stdout), req.Stdout+"\nmore\n")
}

func TestAProcessRunsAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	r := newRig(t)
	req := r.request("a/0", `id -u; id -g; id -G; echo reopened > /dev/stdout`)
	req.Dir = "/"
	req.RunAs = &User{UID: 65534, GID: 65534, Groups: []uint32{65533}}
	if _, err := r.c.Start(r.ctx(), req); err != nil {
		t.Fatal(err)
	}
	diff(t, "code", r.exit("a/0").Code, 0)
	diff(t, "stdout", r.content(req.Stdout), "65534\n65534\n65534 65533\nreopened\n")
}
