//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	portsFile    = "ports.json"
	portsVersion = 1
)

// ports are those of a worker that is away for a planned restart. Where the kernel may choose one,
// the next start asks for the same again: the addresses of logs are in the environment of executors
// that live on, and others know the worker by its addresses.
type ports struct {
	Version int `json:"version"`
	GRPC    int `json:"grpc"`
	Serf    int `json:"serf"`
	HTTP    int `json:"http"`
}

// rememberPorts writes them down for the next start.
func rememberPorts(dataDir string, grpc, serf, http string) error {
	p := ports{Version: portsVersion}
	for addr, port := range map[string]*int{grpc: &p.GRPC, serf: &p.Serf, http: &p.HTTP} {
		_, text, err := net.SplitHostPort(addr)
		if err == nil {
			*port, err = strconv.Atoi(text)
		}
		if err != nil {
			return fmt.Errorf("remember port of %s: %w", addr, err)
		}
	}
	return writeState(filepath.Join(dataDir, portsFile), p)
}

// takePorts returns what an earlier start has remembered, once.
func takePorts(dataDir string) (ports, error) {
	path := filepath.Join(dataDir, portsFile)
	var p ports
	err := readState(path, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return ports{}, nil
	}
	if removeErr := os.Remove(path); removeErr != nil {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", path, removeErr))
	}
	if err != nil {
		return ports{}, err
	}
	if p.Version != portsVersion {
		return ports{}, fmt.Errorf("%s has version %d, this build reads %d", path, p.Version, portsVersion)
	}
	return p, nil
}
