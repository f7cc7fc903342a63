package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix follows the name of a file while its next content is written. What
// has it was left by a process that ended on the way and never counted.
const TempSuffix = ".tmp"

// Write replaces the file at path by data with the given permissions, whatever
// the umask. When it returns nil, content and name are on disk. When it returns
// an error, the file is the old one, or, if only the last step failed (to sync
// the directory), the new one that a power cut may still undo; nothing is left
// beside it. A file that an earlier crash has left beside it is removed.
//
// Writers of the same path must take turns; those of different paths need not.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := WriteUnnamed(path, data, mode); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// WriteUnnamed is Write without its last step: the content is on disk, and the
// name will be with the next sync of the directory that begins afterwards.
func WriteUnnamed(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func replace(path string, data []byte, mode fs.FileMode) error {
	temp := path + TempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := create(temp, data, mode)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		if e := os.Remove(temp); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// create writes a file that must not be there: a link in its place would lead
// elsewhere.
func create(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
