//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

const mastersVersion = 1

// masterList is the gRPC addresses of masters as the leader last gave them, kept on disk so that a
// worker finds its cluster again although the list it was started with is out of date. Safe for
// concurrent use.
type masterList struct {
	path  string
	mu    sync.Mutex
	addrs []string
}

type mastersState struct {
	Version int      `json:"version"`
	Masters []string `json:"masters"`
}

// openMasters reads what is remembered. given is used until the leader has said more.
func openMasters(path string, given []string) (*masterList, error) {
	m := &masterList{path: path}
	var state mastersState
	err := readState(path, &state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("remembered masters: %w", err)
	case state.Version != mastersVersion:
		return nil, fmt.Errorf("remembered masters: %s has version %d, this build reads %d", path, state.Version, mastersVersion)
	}
	m.addrs = state.Masters
	if len(m.addrs) == 0 {
		m.addrs = given
	}
	return m, nil
}

// remember replaces the list and writes it to disk if it has changed.
func (m *masterList) remember(addrs []string) error {
	addrs = slices.Clone(addrs[:min(len(addrs), maxKnownMasters)])
	slices.Sort(addrs)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(addrs) == 0 || slices.Equal(addrs, m.addrs) {
		return nil
	}
	m.addrs = addrs
	return writeState(m.path, mastersState{Version: mastersVersion, Masters: addrs})
}

func (m *masterList) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.addrs)
}
