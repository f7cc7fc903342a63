//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procID names one process among all since boot.
type procID struct {
	pid   int
	start uint64
}

// States of proc(5) that matter here.
const (
	stateZombie = 'Z'
	stateDead   = 'X'
)

// procStat is what a scan reads of a process.
type procStat struct {
	procID
	ppid, pgrp int
	state      byte
	threads    int
}

// dead says whether nothing of the process runs any more. A leading thread that exited before the
// others is shown as a zombie too, but there the process lives on.
func (p procStat) dead() bool {
	return p.state == stateDead || (p.state == stateZombie && p.threads <= 1)
}

// BootID returns the random id of this boot of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// readStat reads /proc/PID/stat. A scan calls it for every process of the machine, so it makes three system
// calls and keeps nothing.
func readStat(pid int) (procStat, error) {
	var line [maxStatBytes]byte
	n, err := readProc("/proc/"+strconv.Itoa(pid)+"/stat", line[:])
	if err != nil {
		return procStat{}, fmt.Errorf("read status of process %d: %w", pid, err)
	}
	return parseStat(pid, line[:n])
}

// readProc reads a file of /proc that fits into b: those are made anew by each read from their start.
func readProc(path string, b []byte) (n int, err error) {
	fd, err := openProc(path, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		if n, err = unix.Read(fd, b); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// openProc opens a file or directory of /proc for reading.
func openProc(path string, flags int) (int, error) {
	for {
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// parseStat takes apart a line of proc(5). The command name may hold blanks and parentheses, so
// counting starts behind its last one: there field 3, the state, is the first.
func parseStat(pid int, line []byte) (procStat, error) {
	const (
		fieldState, fieldPPID, fieldPgrp = 0, 1, 2
		fieldThreads, fieldStart         = 17, 19
	)
	malformed := func() error { return fmt.Errorf("status of process %d is malformed", pid) }
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, malformed()
	}
	p := procStat{procID: procID{pid: pid}}
	field := 0
	for word := range bytes.FieldsSeq(line[end+1:]) {
		var err error
		switch field {
		case fieldState:
			p.state = word[0]
		case fieldPPID:
			p.ppid, err = strconv.Atoi(string(word))
		case fieldPgrp:
			p.pgrp, err = strconv.Atoi(string(word))
		case fieldThreads:
			p.threads, err = strconv.Atoi(string(word))
		case fieldStart:
			p.start, err = strconv.ParseUint(string(word), 10, 64)
			if err == nil {
				return p, nil
			}
		}
		if err != nil {
			return procStat{}, fmt.Errorf("status of process %d: %w", pid, err)
		}
		field++
	}
	return procStat{}, malformed()
}

// scanProcs reads the status of every process that lives through the scan. Processes are read one
// after another, so a parent may end between the reading of its child and its own; the child is
// then read again, or it would seem to hang in the air.
func scanProcs() ([]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("scan processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, fmt.Errorf("scan processes: %w", err)
	}
	procs := make([]procStat, 0, len(names))
	present := make(map[int]bool, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readStat(pid)
		if isGone(err) {
			continue
		}
		if err != nil { // a process overlooked would count as ended
			return nil, err
		}
		procs = append(procs, p)
		present[pid] = true
	}
	for i, p := range procs {
		if p.ppid == 0 || present[p.ppid] {
			continue
		}
		again, err := readStat(p.pid)
		if isGone(err) {
			procs[i].state = stateDead
			continue
		}
		if err != nil {
			return nil, err
		}
		procs[i] = again
	}
	return procs, nil
}

// isGone tells an error of /proc/PID that means the process has ended from any other.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// readEnviron returns the environment a process was started with, nil if it cannot be read.
func readEnviron(pid int) []string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxEnvironBytes))
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\x00")
}

// signalProc sends sig to exactly the process id names, and to nobody if that one is gone: the
// pidfd pins whoever has the number now, then the start time tells who that is.
func signalProc(id procID, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(id.pid, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("open process %d: %w", id.pid, err)
	}
	havePidfd := err == nil
	if havePidfd {
		defer func() { _ = unix.Close(fd) }()
	}
	now, err := readStat(id.pid)
	if err != nil {
		return err
	}
	if now.start != id.start {
		return fmt.Errorf("signal process %d: %w: the number belongs to another process now", id.pid, unix.ESRCH)
	}
	if !havePidfd { // kernels before 5.3
		err = unix.Kill(id.pid, sig)
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.pid, err)
	}
	return nil
}
