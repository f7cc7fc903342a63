//go:build linux

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hearthd/hearth/internal/atomicfile"
)

const (
	exitFileVersion = 1
	exitFileSuffix  = ".json"
)

// exitStore keeps one file per exit that the agent has not yet acknowledged with a Forget. Files
// of different keys may be written and removed concurrently.
type exitStore struct {
	dir   string
	names *dirSync // nil: every save syncs the directory itself
}

func newExitStore(dir string) exitStore {
	return exitStore{dir: dir, names: &dirSync{call: func() error { return atomicfile.SyncDir(dir) }}}
}

type exitFile struct {
	Version int   `json:"version"`
	Entry   Entry `json:"entry"`
}

// path maps a key to its file; a tilde cannot occur in a key, so no two keys share one.
func (s exitStore) path(key string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(key, "/", "~")+exitFileSuffix)
}

// save makes the exit of e durable: it is on disk, under its name, when save returns nil.
func (s exitStore) save(e Entry) error {
	b, err := json.Marshal(exitFile{Version: exitFileVersion, Entry: e})
	if err != nil {
		return fmt.Errorf("encode exit of %s: %w", e.Key, err)
	}
	b = append(b, '\n')
	if s.names == nil {
		err = atomicfile.Write(s.path(e.Key), b, 0o600)
	} else if err = atomicfile.WriteUnnamed(s.path(e.Key), b, 0o600); err == nil {
		err = s.names.sync()
	}
	if err != nil {
		return fmt.Errorf("write exit of %s: %w", e.Key, err)
	}
	return nil
}

// forget removes the exit of key; that there is none is no error. The removal need not be durable:
// an exit that comes back is reported and forgotten once more.
func (s exitStore) forget(key string) error {
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget exit of %s: %w", key, err)
	}
	return nil
}

// load creates the directory if need be and returns all saved exits. Files that cannot be read are
// left where they are and listed in bad.
func (s exitStore) load() (entries []Entry, bad []error, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("create exit directory: %w", err)
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read exit directory: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(s.dir, f.Name())
		if strings.HasSuffix(f.Name(), atomicfile.TempSuffix) {
			_ = os.Remove(path) // a write that was cut short and never counted
			continue
		}
		if !strings.HasSuffix(f.Name(), exitFileSuffix) || !f.Type().IsRegular() {
			continue
		}
		e, err := readExitFile(path)
		if err == nil && s.path(e.Key) != path {
			err = fmt.Errorf("it is of key %q", e.Key)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("exit file %s: %w", path, err))
			continue
		}
		entries = append(entries, e)
	}
	return entries, bad, nil
}

func readExitFile(path string) (Entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Entry{}, err
	}
	if info.Size() > maxExitFileBytes {
		return Entry{}, fmt.Errorf("larger than %d bytes", maxExitFileBytes)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Entry{}, err
	}
	return decodeExit(b)
}

func decodeExit(b []byte) (Entry, error) {
	var f exitFile
	if err := decodeStrict(b, &f); err != nil {
		return Entry{}, err
	}
	if f.Version != exitFileVersion {
		return Entry{}, fmt.Errorf("version %d, want %d", f.Version, exitFileVersion)
	}
	if err := checkKey(f.Entry.Key); err != nil {
		return Entry{}, err
	}
	if f.Entry.State != StateExited || f.Entry.Exit == nil {
		return Entry{}, errors.New("not of an exit")
	}
	return f.Entry, nil
}
