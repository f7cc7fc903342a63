package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hearthd/hearth/internal/atomicfile"
)

// Files in a daemon's data directory. A file counts only if the PID in it is
// that of the process one looks at: a killed daemon leaves it behind.
const (
	// ListeningFile is there once the daemon listens.
	ListeningFile = "listening.json"
	// ReadyFile is there once a master has served as a member of a cluster
	// with a leader, and once a worker listens and can start processes.
	ReadyFile = "ready.json"
)

// maxEndpointsBytes bounds what is read back.
const maxEndpointsBytes = 64 << 10

// Endpoints are the addresses of a daemon, "host:port" each.
type Endpoints struct {
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	GRPC string `json:"grpc"`
	Raft string `json:"raft,omitempty"` // masters only
	Serf string `json:"serf"`
	HTTP string `json:"http"`
}

// WriteEndpoints puts e into the file name of the data directory, atomically.
func WriteEndpoints(dataDir, name string, e Endpoints) error {
	return writeJSON(filepath.Join(dataDir, name), e)
}

// ReadEndpoints returns what the process pid has written into the file name of
// its data directory. The error is fs.ErrNotExist while there is nothing.
func ReadEndpoints(dataDir, name string, pid int) (Endpoints, error) {
	var e Endpoints
	path := filepath.Join(dataDir, name)
	if err := readJSON(path, &e); err != nil {
		return Endpoints{}, err
	}
	if e.PID != pid {
		return Endpoints{}, fmt.Errorf("%s is of process %d: %w", path, e.PID, fs.ErrNotExist)
	}
	return e, nil
}

// RemoveEndpoints removes both files of a data directory if they are the
// calling process's.
func RemoveEndpoints(dataDir string) {
	for _, name := range []string{ReadyFile, ListeningFile} {
		if _, err := ReadEndpoints(dataDir, name, os.Getpid()); err == nil {
			_ = os.Remove(filepath.Join(dataDir, name)) // a stale file is told by its PID
		}
	}
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxEndpointsBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
