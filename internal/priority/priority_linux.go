package priority

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPasses bounds how often the list of threads is read again because a new
// one was found on it.
const maxPasses = 8

// niceOffset: the system call returns 20 minus the nice value.
const niceOffset = 20

// Raise gives every thread of this process the nice value; threads that start
// later inherit it. A process that somebody has started with a nice value of
// its own is left alone: raised is false then. The error wraps os.ErrPermission
// if the system does not allow it; nothing has changed then.
func Raise(nice int) (raised bool, err error) {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return false, fmt.Errorf("read the scheduling priority: %w", err)
	}
	if now != niceOffset {
		return false, nil
	}
	// Linux keeps the value per thread. A thread that is not raised yet may
	// start another meanwhile, so the list is read until all are.
	for range maxPasses {
		changed, err := raiseThreads(nice)
		if err != nil {
			return false, fmt.Errorf("set the scheduling priority to nice %d: %w", nice, err)
		}
		if !changed {
			return true, nil
		}
	}
	return true, nil
}

// raiseThreads reports whether one of the threads had another nice value.
func raiseThreads(nice int) (changed bool, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	for _, th := range threads {
		tid, err := strconv.Atoi(th.Name())
		if err != nil {
			continue
		}
		now, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		if now == niceOffset-nice {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, err
		}
		changed = true
	}
	return changed, nil
}
