package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/hearthd/hearth/model"
)

// Directories below the work directory.
const (
	tasksDir  = "tasks"  // fresh directories of tasks
	outputDir = "output" // spilled output
)

// prepareWorkDir makes the directories that tasks need.
func prepareWorkDir(work string) error {
	for _, d := range []string{tasksDir, outputDir} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o700); err != nil {
			return fmt.Errorf("make the executor's directory: %w", err)
		}
	}
	return nil
}

// taskDir returns the directory in which a task runs and what removes it.
func taskDir(work string, t *model.ExecTask) (string, func() error, error) {
	if t.Dir != "" {
		st, err := os.Stat(t.Dir)
		switch {
		case err != nil:
			return "", nil, fmt.Errorf("working directory: %w", err)
		case !st.IsDir() || !filepath.IsAbs(t.Dir):
			return "", nil, fmt.Errorf("%w: working directory %q: must be an absolute path of a directory", model.ErrInvalid, t.Dir)
		}
		return t.Dir, func() error { return nil }, nil
	}
	dir := filepath.Join(work, tasksDir, attemptName(t))
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) { // left by an executor that was killed
		if err := removeTree(dir); err != nil {
			return "", nil, fmt.Errorf("clear the task's directory: %w", err)
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make the task's directory: %w", err)
	}
	return dir, func() error { return removeTree(dir) }, nil
}

func attemptName(t *model.ExecTask) string { return fmt.Sprintf("%d-%d", t.ID, t.Attempt) }

// removeTree removes a directory even if a task took away its own right to
// write in it, as tools with read-only caches do.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) //nolint:gosec // a directory needs x
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the task's directory: %w", err)
	}
	return nil
}

// writeFiles puts a task's files into its directory. No name, and no symbolic
// link that is already there, leads out of it.
func writeFiles(dir string, files []model.File) error {
	if len(files) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the task's directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory handle
	for _, f := range files {
		if err := writeFile(root, f); err != nil {
			return fmt.Errorf("write file %q: %w", f.Name, err)
		}
	}
	return nil
}

func writeFile(root *os.Root, f model.File) error {
	if parent := path.Dir(f.Name); parent != "." {
		if err := root.MkdirAll(parent, 0o700); err != nil {
			return err //nolint:wrapcheck // wrapped by writeFiles
		}
	}
	mode := fs.FileMode(f.Mode) & fs.ModePerm
	if mode == 0 {
		mode = 0o600
	}
	out, err := root.OpenFile(f.Name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err //nolint:wrapcheck // wrapped by writeFiles
	}
	_, err = out.Write(f.Data)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
