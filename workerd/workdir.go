//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/model"
)

const (
	// markerFile is in each directory that a worker made below its work directory, so that it never
	// removes one that somebody else put there.
	markerFile = ".hearth"
	// scratchDir holds what the executors of one application share.
	scratchDir = "scratch"
	secretFile = ".hearth-secret"
)

// workDir is the directory below which executors run: <work>/<app>/<executor>. It is locked against
// other workers while open. Its methods may be called concurrently.
type workDir struct {
	path string
	root *os.Root
	lock *os.File

	apps sync.Mutex // held while an application's directory comes into being
}

// openWorkDir creates path with mode 0700 if need be and locks it.
func openWorkDir(path string) (*workDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open work directory: %w", err)
	}
	if err := datadir.Prepare(path); err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open work directory: %w", err), lock.Close())
	}
	return &workDir{path: path, root: root, lock: lock}, nil
}

// close gives the directory up. Idempotent.
func (w *workDir) close() error {
	if w.lock == nil {
		return nil
	}
	err := errors.Join(w.root.Close(), w.lock.Close())
	w.lock = nil
	return err
}

// refPath returns the path of an executor's directory below the work directory. Ids come from the
// network: one that is not of the form Hearth gives is refused, so no path leaves the directory.
func refPath(ref model.ExecutorRef) (string, error) {
	if err := checkApp(ref.App); err != nil {
		return "", err
	}
	if ref.Executor < 0 {
		return "", fmt.Errorf("executor id %d: %w", ref.Executor, model.ErrInvalid)
	}
	return filepath.Join(string(ref.App), strconv.Itoa(int(ref.Executor))), nil
}

func checkApp(app model.AppID) error {
	if _, err := app.Number(); err != nil || !filepath.IsLocal(string(app)) || filepath.Base(string(app)) != string(app) {
		return fmt.Errorf("application id %q: %w", string(app), model.ErrInvalid)
	}
	return nil
}

// create makes the new directory of an executor and, if need be, those of its application.
func (w *workDir) create(ref model.ExecutorRef) (dir string, err error) {
	rel, err := refPath(ref)
	if err != nil {
		return "", err
	}
	if err := w.createApp(string(ref.App)); err != nil {
		return "", err
	}
	if err := w.root.Mkdir(rel, 0o700); err != nil {
		return "", fmt.Errorf("create directory of %s: %w", ref, err)
	}
	return filepath.Join(w.path, rel), nil
}

// createApp makes an application's directory with its marker and scratch directory. Executors of
// one application may come here at once, one after the other: who saw a directory without its
// marker and then another executor's in it would take it for somebody else's.
func (w *workDir) createApp(app string) error {
	w.apps.Lock()
	defer w.apps.Unlock()
	marker := filepath.Join(app, markerFile)
	if w.complete(app) {
		return nil
	}
	err := w.root.Mkdir(app, 0o700)
	switch {
	case err == nil:
		err = w.root.WriteFile(marker, nil, 0o600)
	case errors.Is(err, fs.ErrExist):
		// A crash may have left it without its marker; only one with something else in it is foreign.
		err = w.checkOurs(app)
		if err == nil {
			err = w.root.WriteFile(marker, nil, 0o600)
		}
	}
	if err == nil {
		err = w.root.Mkdir(filepath.Join(app, scratchDir), 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("create directory of %s: %w", app, err)
	}
	return nil
}

// complete reports whether an application's directory has all that createApp makes, as it has for all
// its executors but the first.
func (w *workDir) complete(app string) bool {
	scratch, err := w.root.Lstat(filepath.Join(app, scratchDir))
	if err != nil || !scratch.IsDir() {
		return false
	}
	_, err = w.root.Lstat(filepath.Join(app, markerFile))
	return err == nil
}

func (w *workDir) checkOurs(app string) error {
	if _, err := w.root.Lstat(filepath.Join(app, markerFile)); err == nil {
		return nil
	}
	f, err := w.root.Open(app)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != markerFile && n != scratchDir {
			return fmt.Errorf("there is a directory of that name which no worker made (no %s in it)", markerFile)
		}
	}
	return nil
}

func (w *workDir) scratch(app model.AppID) string {
	return filepath.Join(w.path, string(app), scratchDir)
}
