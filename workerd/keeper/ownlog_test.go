//go:build linux

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheLogOfAKeeperIsBoundedByOneOlderFile(t *testing.T) {
	const limit = 4 << 10
	r := newRig(t, withTimes(t, testTimes{LogBytes: limit}))
	path := logPath(r.dir)
	lives := r.start("a/0", "exec sleep 300")
	for i := 1; i <= 40; i++ {
		key := fmt.Sprintf("a/%d", i)
		r.start(key, "exit 0")
		r.exit(key)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		// One line may exceed it, and the next is written before it is looked at.
		if info.Size() > limit+1<<10 {
			t.Fatalf("the log has %d bytes, want little more than %d", info.Size(), limit)
		}
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "files", files, []string{path, path + oldLogSuffix})
	diff(t, "a child that lives on", r.entry("a/0").Proc, lives.Proc)
	// Both outputs of the process go to the new file.
	for _, fd := range []int{1, 2} {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", r.c.Info().Proc.PID, fd))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, fmt.Sprintf("descriptor %d", fd), to, path)
	}
}

func TestRotationOfTheLogLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keeper.log")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	other, err := os.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for i := range 3 {
		for range 10 {
			if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := boundLog(path, 70, int(f.Fd()), int(other.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteString("end\n"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{path: "end\n", path + oldLogSuffix: strings.Repeat("line 2\n", 10)} {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, file, string(got), want)
	}
	var a, b unix.Stat_t
	if unix.Fstat(int(other.Fd()), &a) != nil || unix.Stat(path, &b) != nil || a.Ino == b.Ino {
		t.Error("a descriptor of another file was taken too")
	}
	if err := boundLog(path+".none", 0); err != nil {
		t.Errorf("without a log: %v", err)
	}
}
