package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// procStat is the part of /proc/PID/stat that ties a process to a task.
type procStat struct {
	pid, ppid, pgid, sid int
	state                byte
	start                uint64 // clock ticks since boot: tells one owner of a pid from the next
}

func (p procStat) zombie() bool { return p.state == 'Z' || p.state == 'X' }

// readStat reads /proc/PID/stat.
func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	return parseStat(b)
}

// parseStat reads one line of /proc/PID/stat (proc_pid_stat(5)). The name in
// parentheses may hold anything, so fields are counted from the last ')'.
func parseStat(b []byte) (procStat, error) {
	bad := func() (procStat, error) { return procStat{}, fmt.Errorf("process state %.80q: unknown format", b) }
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return bad()
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	f := strings.Fields(string(b[end+1:]))
	if err != nil || len(f) < 20 || len(f[0]) != 1 {
		return bad()
	}
	st := procStat{pid: pid, state: f[0][0]}
	for i, to := range []*int{&st.ppid, &st.pgid, &st.sid} {
		if *to, err = strconv.Atoi(f[1+i]); err != nil {
			return bad()
		}
	}
	if st.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return bad()
	}
	return st, nil
}

// childrenOf lists the direct children of a process: from the kernel's own
// lists, which cost a few reads whatever runs on the machine, or, where it
// keeps none, from the parents of all processes.
func childrenOf(pid int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	var out []int
	read := 0
	for _, th := range threads {
		b, err := os.ReadFile(dir + "/" + th.Name() + "/children")
		if err != nil {
			continue // the thread has ended, or the kernel keeps no list
		}
		read++
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	if read > 0 {
		return out, nil
	}
	return childrenByScan(pid)
}

// orphansOf lists the direct children of a reaper that it has not started
// itself, at the price of one read: the kernel gives an orphan to the first
// thread of its reaper that is not ending, which is the main one (find_new_reaper
// in kernel/exit.c), while what Go starts belongs to the thread that did. Those
// in the list may be of either kind. Without the kernel's lists it is childrenOf.
func orphansOf(pid int) ([]int, error) {
	main := strconv.Itoa(pid)
	b, err := os.ReadFile("/proc/" + main + "/task/" + main + "/children")
	if err != nil {
		return childrenOf(pid)
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

func childrenByScan(parent int) ([]int, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil && st.ppid == parent {
			out = append(out, pid)
		}
	}
	return out, nil
}

// maxTreeDepth bounds the walk down a process tree.
const maxTreeDepth = 256

// descendantsOf lists what is below a process, itself excluded, as it is found
// in one walk.
func descendantsOf(pid int) []procStat {
	var out []procStat
	level := []int{pid}
	for depth := 0; depth < maxTreeDepth && len(level) > 0; depth++ {
		var next []int
		for _, p := range level {
			children, err := childrenOf(p)
			if err != nil {
				continue // it has ended meanwhile
			}
			for _, c := range children {
				if st, err := readStat(c); err == nil {
					out = append(out, st)
					next = append(next, c)
				}
			}
		}
		level = next
	}
	return out
}

// environOf reads the environment a process was started with. It is empty for
// processes that are ending or belong to somebody else.
func environOf(pid int) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if errors.Is(err, fs.ErrPermission) || len(b) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment of process %d: %w", pid, err)
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
}
