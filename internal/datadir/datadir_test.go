//go:build linux

package datadir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDirectoriesArePrivateWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o277} {
		base := t.TempDir()
		old := syscall.Umask(umask)
		err := Prepare(filepath.Join(base, "a", "b"))
		syscall.Umask(old)
		if err != nil {
			t.Fatalf("umask %04o: %v", umask, err)
		}
		for _, dir := range []string{"a", filepath.Join("a", "b")} {
			info, err := os.Stat(filepath.Join(base, dir))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != Mode {
				t.Errorf("umask %04o: %s has mode %04o, want %04o", umask, dir, got, Mode)
			}
		}
	}
}

func TestADirectoryThatOthersCanWriteIsRefusedAndTheFixIsNamed(t *testing.T) {
	const me, friend = 1000, 1001
	for _, test := range []struct {
		name         string
		mode         fs.FileMode
		owner, group int
		want         string // "" = accepted
	}{
		{"private", 0o700, me, me, ""},
		{"readable by all", 0o755, me, friend, ""},
		{"of root", 0o755, 0, 0, ""},
		{"writable by a group of its own", 0o775, me, me, ""},
		{"writable by all", 0o777, me, me, "chmod 700 /data"},
		{"writable by all, sticky", 0o777, 0, 0, "chmod 700 /data"},
		{"writable by a group of others", 0o770, me, friend, "writable by the group 1001"},
		{"of somebody else", 0o700, friend, me, "chown 1000 /data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := check("/data", test.mode, test.owner, test.group, me)
			if test.want == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestPrepareChecksWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(dir); err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("a directory open to everybody: got error %v, want the fix", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file: got error %v, want one that names it", err)
	}
}

func TestClaimClosesWhatWasLeftOpen(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "raft")
	outside := filepath.Join(t.TempDir(), "outside")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(sub, 0o755), os.Chmod(sub, 0o755),
		os.WriteFile(filepath.Join(sub, "wal"), nil, 0o600), os.Chmod(filepath.Join(sub, "wal"), 0o644),
		os.WriteFile(outside, nil, 0o600), os.Chmod(outside, 0o644), os.Symlink(outside, filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Claim(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, sub: 0o700, filepath.Join(sub, "wal"): 0o600, outside: 0o644} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
}
