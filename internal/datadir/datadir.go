//go:build linux

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Mode is that of the directories made here, FileMode that of files in them.
const (
	Mode     fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

const (
	groupWrite fs.FileMode = 0o020
	otherWrite fs.FileMode = 0o002
)

// Prepare makes dir and its missing parents with Mode, whatever the umask, and
// checks dir if it is there already: see Check.
func Prepare(dir string) error {
	if err := makeAll(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return Check(dir)
}

// makeAll is os.MkdirAll without the umask.
func makeAll(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, Mode); err != nil {
		if errors.Is(err, fs.ErrExist) { // somebody else made it in the meantime
			return nil
		}
		return err
	}
	return os.Chmod(dir, Mode)
}

// Check returns an error that says what to do if dir can be changed by anybody
// but the user of this process and root: then whoever writes there could plant
// a state, an order or a key. Others may be able to read the directory; what is
// in it has permissions of its own. A group that holds nobody but its user, by
// the convention that both have one number, may write.
func Check(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: must be a directory", dir)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the file system does not say who owns it", dir)
	}
	return check(dir, info.Mode().Perm(), int(stat.Uid), int(stat.Gid), os.Geteuid())
}

func check(dir string, mode fs.FileMode, owner, group, self int) error {
	switch {
	case owner != self && owner != 0:
		return fmt.Errorf("directory %s: must belong to the user of this process (%d), it belongs to %d: chown %d %s", dir, self, owner, self, dir)
	case mode&otherWrite != 0:
		return fmt.Errorf("directory %s: must not be writable by everybody (mode %04o): chmod 700 %s", dir, mode, dir)
	case mode&groupWrite != 0 && group != owner:
		return fmt.Errorf("directory %s: must not be writable by the group %d (mode %04o): chmod 700 %s", dir, group, mode, dir)
	}
	return nil
}

// Claim is Prepare for a directory that belongs to one process alone: one that
// others can read is closed to them, and so are the files and directories in it
// that libraries or earlier versions have left open. Links are not followed.
func Claim(dir string) error {
	if err := Prepare(dir); err != nil {
		return err
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone in the meantime
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !(info.Mode().IsRegular() || info.IsDir()) {
			return err
		}
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			return os.Chmod(path, perm&0o700)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("close directory %s to others: %w", dir, err)
	}
	return nil
}
