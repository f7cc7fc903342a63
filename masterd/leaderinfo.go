package masterd

import "sync"

// signal tells any number of waiting goroutines that something has changed.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// next returns a channel that is closed by the next fire.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

// fire wakes all that wait. It never blocks.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// leaderInfo tells package rpc who leads.
type leaderInfo struct{ m *Master }

// Leading reports whether the leader scope is ready.
func (l leaderInfo) Leading() bool { return l.m.leading.Load() != nil }

// Elected reports whether Raft takes this master for the leader; its scope may
// not be ready yet.
func (l leaderInfo) Elected() bool {
	_, leading := l.m.node.Belief()
	return leading
}

// LeaderAddr is the gRPC address of the leader, "" if none is known.
func (l leaderInfo) LeaderAddr() string {
	id, _ := l.m.node.Leader()
	if id == "" {
		return ""
	}
	return l.m.grpcAddrOf(id)
}

// Changed returns a channel that is closed by the next change of the others'
// answers. An address that gossip learns later does not count.
func (l leaderInfo) Changed() <-chan struct{} { return l.m.leader.next() }

// setLeading makes l the leader scope that serves calls; nil = none.
func (m *Master) setLeading(l *leadership) {
	m.leading.Store(l)
	m.leader.fire()
}
