package cli

import (
	"strings"
	"testing"
)

// PR-23: a daemon says before it starts what would end it hours later.
func TestPR23ADaemonNeedsAtLeast4096OpenFiles(t *testing.T) {
	t.Parallel()
	for limit, ok := range map[uint64]bool{1024: false, 4095: false, 4096: true, 1 << 20: true} {
		err := enoughOpenFiles(limit)
		if (err == nil) != ok {
			t.Errorf("a limit of %d: %v", limit, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "ulimit -n 4096") || exitCode(err) != exitUsage) {
			t.Errorf("a limit of %d: %v with exit code %d, want the way out and %d", limit, err, exitCode(err), exitUsage)
		}
	}
}
