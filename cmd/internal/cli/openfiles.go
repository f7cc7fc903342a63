package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// minOpenFiles is how many files and connections a daemon must be allowed to
// have open: a leader has connections to all workers and drivers, a keeper has
// the output of all it runs.
const minOpenFiles = 4096

// requireOpenFiles refuses to start where connections would fail one after the
// other once some hundred are open. The Go runtime has raised the limit as far
// as it may be.
func requireOpenFiles() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	return enoughOpenFiles(l.Cur)
}

func enoughOpenFiles(limit uint64) error {
	if limit >= minOpenFiles {
		return nil
	}
	return &codedError{code: exitUsage, err: fmt.Errorf(
		"at most %d open files are allowed, and a daemon needs %d: raise it with ulimit -n %d, or with LimitNOFILE= in the unit",
		limit, minOpenFiles, minOpenFiles)}
}
