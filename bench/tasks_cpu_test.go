package bench

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func usedByUs(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What idle processes use in a slice is little: a clock that counts in hundredths of a second would give 0 or several times as much.
func TestProcessorTimeIsCountedFinely(t *testing.T) {
	t.Parallel()
	read := func() time.Duration {
		s, err := cpuSeconds(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(s * 1e9)
	}
	earliest := usedByUs(t)
	before := read()
	if latest := usedByUs(t); before < earliest-time.Millisecond || before > latest+time.Millisecond {
		t.Errorf("this process has used %s, by its own account %s to %s", before, earliest, latest)
	}
	finest := time.Second
	for range 1000 {
		if now := read(); now > before {
			finest, before = min(finest, now-before), now
		}
	}
	if finest >= time.Millisecond {
		t.Errorf("the clock moves by steps of %s", finest)
	}
	if _, err := cpuSeconds(1<<22 + 1); err == nil {
		t.Error("a process that is not there has used processor time")
	}
}
