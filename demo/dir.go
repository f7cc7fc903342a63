package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// prepareDir makes the directory of a demonstration: a new temporary one, an
// empty one, or that of an earlier demonstration, whose remains are removed.
// Nobody else's directory is touched.
func prepareDir(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "hearth-demo-")
		if err != nil {
			return "", fmt.Errorf("make a directory: %w", err)
		}
		return filepath.EvalSymlinks(dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", usagef("--dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", usagef("--dir: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", usagef("--dir: %w", err)
	}
	s, err := loadState(dir)
	switch {
	case err == nil && s.running():
		return "", usagef("--dir %s: a demonstration runs there; end it with hearth demo --stop --dir %s", dir, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", usagef("--dir: %w", err)
	}
	for _, e := range entries {
		if err != nil || !ours(e.Name()) {
			return "", usagef("--dir %s: holds %s, which is no demonstration's: give an empty or new directory", dir, e.Name())
		}
	}
	return dir, clean(dir)
}

// ours tells what a demonstration puts into its directory.
func ours(name string) bool {
	kind, number, _ := strings.Cut(strings.TrimSuffix(name, ".log"), "-")
	_, err := strconv.Atoi(number)
	return name == stateFile || name == secureDir || err == nil && (kind == "master" || kind == "worker")
}

func clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean %s: %w", dir, err)
	}
	for _, e := range entries {
		if ours(e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("clean %s: %w", dir, err)
			}
		}
	}
	return nil
}
