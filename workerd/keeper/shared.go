//go:build linux

package keeper

import "sync"

// shared shares looks at something that changes: callers that arrive while one is taken wait for the next
// and all use that, so a hundred keys that end together cost two, and every result was begun after its
// caller asked. mu guards all fields; look runs without it.
type shared[T any] struct {
	look func() (T, error)

	mu       sync.Mutex
	finished sync.Cond
	running  bool
	begun    uint64
	done     uint64
	value    T
	err      error
}

func newShared[T any](look func() (T, error)) *shared[T] {
	s := &shared[T]{look: look}
	s.finished.L = &s.mu
	return s
}

// get returns what a look has found; callers must not change it.
func (s *shared[T]) get() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := s.begun + 1
	for s.done < need {
		if s.running {
			s.finished.Wait()
			continue
		}
		s.running = true
		s.begun++
		this := s.begun
		s.mu.Unlock()
		value, err := s.look()
		s.mu.Lock()
		s.value, s.err, s.done, s.running = value, err, this, false
		s.finished.Broadcast()
	}
	return s.value, s.err
}
