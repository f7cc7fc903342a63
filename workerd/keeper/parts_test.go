//go:build linux

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStatIsParsedWhateverTheCommandIsCalled(t *testing.T) {
	const rest = " S 12 34 34 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 5555 100 200"
	for _, name := range []string{"sleep", "a b", "a) S 1 2 (b", "((", ""} {
		got, err := parseStat(77, []byte("77 ("+name+")"+rest))
		if err != nil {
			t.Fatal(err)
		}
		want := procStat{procID: procID{77, 5555}, ppid: 12, pgrp: 34, state: 'S', threads: 9}
		if got != want {
			t.Errorf("command %q: %+v, want %+v", name, got, want)
		}
	}
	for _, bad := range []string{"", "77", "77 (sleep) S", "77 (x) S a" + strings.Repeat(" 1", 20)} {
		if _, err := parseStat(77, []byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("77 (a b) S 12 34 34 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 5555 100 200"))
	f.Add([]byte(")"))
	f.Fuzz(func(_ *testing.T, line []byte) { _, _ = parseStat(1, line) })
}

func TestAZombieWithThreadsIsNotDead(t *testing.T) {
	for _, c := range []struct {
		name string
		stat procStat
		want bool
	}{
		{"a sleeping process", procStat{state: 'S', threads: 1}, false},
		{"a zombie", procStat{state: 'Z', threads: 1}, true},
		{"a zombie leader of living threads", procStat{state: 'Z', threads: 3}, false},
		{"a process that is being removed", procStat{state: 'X'}, true},
	} {
		if got := c.stat.dead(); got != c.want {
			t.Errorf("%s: dead is %v", c.name, got)
		}
	}
}

func TestScansThatStartTogetherAreShared(t *testing.T) {
	scans := newShared(scanProcs)
	const callers = 50
	results := make(chan error, callers)
	for range callers {
		go func() {
			procs, err := scans.get()
			if err == nil && len(procs) == 0 {
				err = fmt.Errorf("no processes at all")
			}
			results <- err
		}()
	}
	for range callers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func logOf(t *testing.T, rot Rotation) (*logFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	l, err := openLog(path, rot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, path
}

func TestRotationKeepsLinesWhole(t *testing.T) {
	for _, c := range []struct {
		name   string
		keep   int
		writes []string
		want   []string // newest first
	}{
		{"what fits stays", 3, []string{"aaa\n", "bbb\n"}, []string{"aaa\nbbb\n"}},
		{"a line that does not fit starts the next file", 3, []string{"aaaa\n", "bbbbbb\n"}, []string{"bbbbbb\n", "aaaa\n"}},
		{"a chunk is cut behind its last line that fits", 3, []string{"a\nb\nc\ndddd\ne\n"}, []string{"dddd\ne\n", "a\nb\nc\n"}},
		{"a line longer than a file is cut", 3, []string{"0123456789abcdef\n"}, []string{"abcdef\n", "0123456789"}},
		{"the oldest goes", 2, []string{"aaaaaaa\n", "bbbbbbb\n", "ccccccc\n"}, []string{"ccccccc\n", "bbbbbbb\n"}},
		{"with one file it starts over", 1, []string{"aaaaaaa\n", "bbbbbbb\n"}, []string{"bbbbbbb\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := logOf(t, Rotation{MaxBytes: 10, KeepFiles: c.keep})
			for _, w := range c.writes {
				l.write([]byte(w))
			}
			var got []string
			for i := range 5 {
				if b, err := os.ReadFile(l.generation(i)); err == nil {
					got = append(got, string(b))
				}
			}
			diff(t, "files of "+path, got, c.want)
		})
	}
}

func TestOutputThatCannotBeWrittenIsCountedAndSaid(t *testing.T) {
	l, path := logOf(t, Rotation{})
	l.write([]byte("before\n"))
	good := l.f
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.f = full
	l.write([]byte("lost line\n"))
	_ = full.Close()
	l.f = good
	l.write([]byte("after\n"))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "file", string(b), "before\n[hearth: 10 bytes of output could not be written and are lost]\nafter\n")
}

func TestOutputFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link := filepath.Join(dir, "stdout")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if l, err := openLog(link, Rotation{}); err == nil {
		l.close()
		t.Error("a link is followed")
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := openLog(fifo, Rotation{}); err == nil {
		l.close()
		t.Error("a fifo is opened")
	}
}

func TestTheProgramIsLookedUpAsTheProcessWould(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "tool")
	plain := filepath.Join(dir, "plain", "tool")
	for path, mode := range map[string]os.FileMode{program: 0o700, plain: 0o600} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, word, path string
		want             string
		reason           Reason
	}{
		{"by PATH", "tool", "/nowhere:" + dir + "/bin", program, ""},
		{"by a relative PATH", "tool", "bin", program, ""},
		{"by a path relative to the directory", "./bin/tool", "", program, ""},
		{"past one that cannot be executed", "tool", dir + "/plain:" + dir + "/bin", program, ""},
		{"only one that cannot be executed", "tool", dir + "/plain", "", ReasonNotExecutable},
		{"without a PATH", "tool", "", "", ReasonCommandNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := lookPath(c.word, []string{"PATH=/ignored", "PATH=" + c.path}, dir)
			diff(t, "path", got, c.want)
			diff(t, "reason", ReasonOf(err), c.reason)
		})
	}
}

func TestAbsenceOfMemoryLimitsHasAReason(t *testing.T) {
	ok, why := CgroupSupport()
	if why == "" {
		t.Errorf("support %v without a reason", ok)
	}
	t.Logf("%v: %s", ok, why)
}

func TestDelegationIsCheckedFileByFile(t *testing.T) {
	for _, c := range []struct {
		name        string
		controllers string
		want        string
	}{
		{"memory is delegated", "cpu memory pids\n", ""},
		{"memory is not delegated", "cpu pids memory_recursiveprot\n", "not delegated"},
		{"no cgroup at all", "-", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := t.TempDir()
			files := map[string]string{"cgroup.controllers": c.controllers, cgroupProcs: "", cgroupSubtree: ""}
			if c.controllers == "-" {
				files = nil
			}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(base, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkDelegation(base)
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	diff(t, "base", delegatedBase("/sys/fs/cgroup/a/"+SupervisorCgroup), "/sys/fs/cgroup/a")
	diff(t, "base", delegatedBase("/sys/fs/cgroup/a"), "/sys/fs/cgroup/a")
}

func TestACgroupWithStrangersIsNotRearranged(t *testing.T) {
	base := t.TempDir()
	write := func(pids ...int) {
		text := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(pids)), "\n"), "[]")
		if err := os.WriteFile(filepath.Join(base, cgroupProcs), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(os.Getpid())
	if pids, err := movable(base); err != nil || len(pids) != 1 {
		t.Errorf("own process alone: %v, %v", pids, err)
	}
	write(os.Getpid(), startStranger(t).PID)
	if _, err := movable(base); err == nil {
		t.Error("a stranger would be moved")
	}
}

// cgroup2 returns a new cgroup on whatever cgroup v2 hierarchy there is; without controllers it
// still groups and kills.
func cgroup2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{cgroupMount, filepath.Join(cgroupMount, "unified")} {
		var info unix.Statfs_t
		if unix.Statfs(mount, &info) != nil || info.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(mount, fmt.Sprintf("hearth-keeper-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) == nil {
			t.Cleanup(func() { removeCgroups(dir, maxCgroupDepth) })
			return dir
		}
	}
	t.Skip("no writable cgroup v2 hierarchy")
	return ""
}

func TestACgroupHoldsAndKillsWhatIsSpawnedIntoIt(t *testing.T) {
	tree := &cgroupTree{dir: cgroup2(t)}
	cg, err := tree.create("app/0", 0)
	if err != nil {
		t.Fatal(err)
	}
	devNull, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = devNull.Close() }()
	fd := devNull.Fd()
	// The keeper's only way to spawn, on a thread that lives as long as the child.
	sp := newSpawner()
	stop := make(chan struct{})
	defer close(stop)
	go sp.run(stop)
	pid, err := sp.spawn(spawnSpec{
		path: "/bin/sh", argv: []string{"sh", "-c", "setsid sleep 300 & sleep 300"}, env: os.Environ(), dir: "/",
		stdin: fd, stdout: fd, stderr: fd, cgroupFD: cg.fd,
	})
	cg.opened()
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "three processes are in the cgroup", func() bool { return len(cg.pids()) == 3 })
	diff(t, "reader", tree.of("app/0").pids(), cg.pids())
	if err := tree.clear(); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || status.Signal() != unix.SIGKILL {
		t.Errorf("wait: %v, status %v", err, status)
	}
	poll(t, "the cgroup is empty", func() bool { return len(cg.pids()) == 0 })
	poll(t, "the cgroup can be removed", func() bool {
		cg.remove()
		_, err := os.Stat(cg.dir)
		return err != nil
	})
}

func TestTheLimitIsWrittenInBytes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.oom.group"} { // no swap on this machine
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cg := &cgroup{dir: dir}
	if err := cg.limit(256); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "268435456", "memory.oom.group": "1"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, name, string(b), want)
	}
	for content, want := range map[string]bool{"low 0\noom 1\noom_kill 1\n": true, "oom 1\noom_kill 0\n": false} {
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cg.oomKilled(); got != want {
			t.Errorf("oom killed with %q: %v", content, got)
		}
	}
}

// PR-18: a process frozen by the cgroup v1 freezer cannot be killed before it is thawed.
func TestAProcessThatOutlivesSigkillIsStuckAndWatched(t *testing.T) {
	freezer := fmt.Sprintf("/sys/fs/cgroup/freezer/hearth-keeper-test-%d", os.Getpid())
	if err := os.Mkdir(freezer, 0o755); err != nil {
		t.Skipf("no cgroup v1 freezer: %v", err)
	}
	t.Cleanup(func() { poll(t, "freezer is removed", func() bool { return os.Remove(freezer) == nil }) })
	r := newRig(t, withTimes(t, testTimes{StuckAfter: 100 * time.Millisecond}))
	p := r.start("a/0", "exec sleep 300")
	if err := writeCgroup(freezer, cgroupProcs, fmt.Sprint(p.PID)); err != nil {
		t.Fatal(err)
	}
	thaw := func() { _ = writeCgroup(freezer, "freezer.state", "THAWED") }
	t.Cleanup(thaw)
	if err := writeCgroup(freezer, "freezer.state", "FROZEN"); err != nil {
		t.Fatal(err)
	}
	r.kill("a/0", 0)
	r.take("stuck", func() bool { return r.stuck["a/0"].Stuck })
	diff(t, "stuck", r.stuck["a/0"], Entry{Key: "a/0", State: StateRunning, Proc: p.Proc, Killing: true, Stuck: true})
	diff(t, "list", r.entry("a/0"), r.stuck["a/0"])
	thaw()
	diff(t, "signal", r.exit("a/0").Signal, 9)
}
