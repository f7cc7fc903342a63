package executor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/model"
)

// processes starts the processes of tasks and buries them with all they left
// behind. One per Run.
//
// Two rules keep it from hitting strangers. A leader is reaped only under mu,
// together with its entry in leaders, so that its id is either known or not in
// use. And only direct children are ever signalled: nobody else reaps those,
// so their ids cannot be given away; what is below one becomes a direct child
// when its parent ends, because the process is a child subreaper.
type processes struct {
	logger hclog.Logger
	// owner: every child of this process belongs to a task (Config.OwnsProcess).
	owner bool
	spawn chan func()
	stop  chan struct{} // closed when no more processes are started

	// mu is held for reading while a process is started, so that several can be, and
	// for writing by whoever reaps or looks for orphans: each child is known to it.
	mu sync.RWMutex
	// leaders may be read while mu is held for writing, and change then or, while it is
	// held for reading, under known.
	known   sync.Mutex
	leaders map[int]*process
}

// process is a task's leader: head of a session and a process group of its own.
type process struct {
	cmd   *exec.Cmd
	pid   int
	marks []string // variables that name the task, from taskMarks
	// exited is closed when the leader has ended; it is a zombie until bury.
	exited chan struct{}
	// kin are processes seen below an orphan of this task: they belong to it
	// whatever they look like later. Used by bury only.
	kin map[int]uint64
}

func newProcesses(logger hclog.Logger, owner bool) (*processes, error) {
	if owner {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the reaper of orphans: %w", err)
		}
	}
	return &processes{
		logger: logger, owner: owner,
		spawn: make(chan func()), stop: make(chan struct{}), leaders: make(map[int]*process),
	}, nil
}

// runSpawner starts processes from one thread, one after the other, until stop is
// closed. The parent-death signal of a child comes when the thread that spawned it
// ends, so that thread must not be one that Go may retire. One thread starts about
// two thirds of what two cores can, so there are several.
func (ps *processes) runSpawner() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for {
		select {
		case f := <-ps.spawn:
			f()
		case <-ps.stop:
			return
		}
	}
}

// start runs a command as the leader of a new session. Its files must be
// *os.File, so that waiting for it waits for nothing else.
func (ps *processes) start(cmd *exec.Cmd, marks []string) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, marks: marks, exited: make(chan struct{}), kin: make(map[int]uint64)}
	done := make(chan error, 1)
	begin := func() {
		ps.mu.RLock()
		defer ps.mu.RUnlock()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
			ps.known.Lock()
			ps.leaders[p.pid] = p
			ps.known.Unlock()
		}
		done <- err
	}
	select {
	case ps.spawn <- begin:
	case <-ps.stop:
		return nil, fmt.Errorf("start the process: the executor %w", model.ErrEnded)
	}
	if err := <-done; err != nil {
		return nil, fmt.Errorf("start the process: %w", err)
	}
	go p.watch()
	return p, nil
}

// watch closes exited when the leader has ended, and leaves it unreaped.
func (p *process) watch() {
	defer close(p.exited)
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal sends a signal to the leader's process group. Safe until bury: the
// group's id is the leader's.
func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.pid, sig) // ESRCH: nobody is left
}

// bury kills what an ended leader left behind, then reaps it. Call it once,
// after exited.
func (ps *processes) bury(p *process) *os.ProcessState {
	p.signal(syscall.SIGKILL)
	pause := time.Millisecond
	for round := 0; ps.owner && ps.killOrphansOf(p) > 0; round++ {
		if round == maxBuryRounds {
			ps.logger.Warn("a task left processes that do not end", "pid", p.pid)
			break
		}
		wait(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_ = p.cmd.Wait() // the exit status is in ProcessState
	delete(ps.leaders, p.pid)
	return p.cmd.ProcessState
}

// wait pauses while the kernel ends killed processes.
func wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// killOrphansOf kills the orphans of one task, reaps the dead ones, and returns
// how many were still alive.
func (ps *processes) killOrphansOf(p *process) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.killOrphans(orphansOf, func(st procStat) bool { return belongs(p, st) }, p.kin)
}

// sweep reaps dead orphans and, when no task runs, kills the living ones:
// then nobody else can own them.
func (ps *processes) sweep() int {
	if !ps.owner {
		return 0
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	idle := len(ps.leaders) == 0
	return ps.killOrphans(childrenOf, func(procStat) bool { return idle }, nil)
}

// killOrphans looks once at the direct children that list returns and that lead
// no task. mu is held.
func (ps *processes) killOrphans(list func(pid int) ([]int, error), mine func(procStat) bool, kin map[int]uint64) int {
	children, err := list(os.Getpid())
	if err != nil {
		ps.logger.Error("cannot look for orphans", "err", err)
		return 0
	}
	alive := 0
	for _, pid := range children {
		if ps.leaders[pid] != nil {
			continue
		}
		st, err := readStat(pid)
		if err != nil {
			continue
		}
		if st.zombie() {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			continue
		}
		if !mine(st) {
			continue
		}
		alive++
		if kin != nil {
			for _, d := range descendantsOf(pid) {
				kin[d.pid] = d.start
			}
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return alive
}

// belongs reports whether an orphan comes from a task: it is of its session or
// group, was seen below one that is, or carries its name.
func belongs(p *process, st procStat) bool {
	if st.sid == p.pid || st.pgid == p.pid {
		return true
	}
	if start, ok := p.kin[st.pid]; ok && start == st.start {
		return true
	}
	env, err := environOf(st.pid)
	if err != nil {
		return false // it has ended
	}
	for _, kv := range p.marks {
		if !slices.Contains(env, kv) {
			return false
		}
	}
	return true
}

// pids lists the leaders that are not buried.
func (ps *processes) pids() []int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Sorted(maps.Keys(ps.leaders))
}
