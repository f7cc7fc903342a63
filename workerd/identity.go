//go:build linux

package workerd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

const (
	identityFile    = "worker.json"
	lockFile        = "lock"
	identityVersion = 1
)

// ErrLocked is in the error of New when another worker uses the data directory.
var ErrLocked = errors.New("another worker uses this data directory")

// workerIDForm is the form of ids; what is read from disk ends up in paths and environments.
func workerIDForm() *regexp.Regexp { return regexp.MustCompile(`^worker-[0-9]{14}-[0-9a-f]{8}$`) }

// identity is who this worker is. It owns the lock on the data directory while it is open. It is
// used by one goroutine.
type identity struct {
	dir  string
	lock *os.File

	id          model.WorkerID
	incarnation uint64
	bootID      string
	proc        keeper.Proc // this process
}

type identityState struct {
	Version     int            `json:"version"`
	Worker      model.WorkerID `json:"worker_id"`
	Incarnation uint64         `json:"incarnation"`
}

// openIdentity locks dir, which it creates with mode 0700 if need be, reads the worker's id or makes
// one, and counts this start: the new incarnation is on disk when it returns. now is the wall clock.
func openIdentity(dir string, now time.Time) (*identity, error) {
	if err := datadir.Prepare(dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return nil, fmt.Errorf("protect data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	i := &identity{dir: dir, lock: lock}
	if err := i.load(now); err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

func (i *identity) load(now time.Time) error {
	boot, err := keeper.BootID()
	if err != nil {
		return err
	}
	i.bootID = boot
	if i.proc, err = keeper.ProcOf(os.Getpid()); err != nil {
		return err
	}
	var state identityState
	err = readState(i.path(), &state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id, err := newWorkerID(now)
		if err != nil {
			return err
		}
		state = identityState{Version: identityVersion, Worker: id}
	case err != nil:
		return fmt.Errorf("identity of this worker: %w", err)
	case state.Version != identityVersion:
		return fmt.Errorf("identity of this worker: %s has version %d, this build reads %d", i.path(), state.Version, identityVersion)
	case !workerIDForm().MatchString(string(state.Worker)):
		return fmt.Errorf("identity of this worker: %s: %q is not a worker id", i.path(), state.Worker)
	}
	i.id, i.incarnation = state.Worker, state.Incarnation
	return i.bump()
}

// bump counts one more incarnation and returns once it is on disk.
func (i *identity) bump() error {
	next := identityState{Version: identityVersion, Worker: i.id, Incarnation: i.incarnation + 1}
	if err := writeState(i.path(), next); err != nil {
		return fmt.Errorf("count incarnation %d: %w", next.Incarnation, err)
	}
	i.incarnation = next.Incarnation
	return nil
}

func (i *identity) path() string { return filepath.Join(i.dir, identityFile) }

// close releases the data directory. Idempotent.
func (i *identity) close() error {
	if i.lock == nil {
		return nil
	}
	err := i.lock.Close() // gives the lock up
	i.lock = nil
	return err
}

// lockDir takes the lock of dir without waiting. The kernel gives it up with the process.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}

func newWorkerID(now time.Time) (model.WorkerID, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make worker id: %w", err)
	}
	return model.WorkerID("worker-" + now.UTC().Format("20060102150405") + "-" + hex.EncodeToString(b[:])), nil
}
