package simnet

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// segment is a piece of a stream and when it reaches the reader.
type segment struct {
	data []byte
	at   time.Time
}

// signal is a condition that reaches the other end at a time, once the link lets it through.
type signal struct {
	err error
	at  time.Time
}

// stream is one direction of a connection. The reader waits for data, the writer for room; both wait on notify, which
// is closed and replaced on each change.
type stream struct {
	n        *Network
	from, to string // host names of writer and reader

	mu       sync.Mutex
	notify   chan struct{}
	segments []segment
	lastAt   time.Time // arrival of the newest segment: the stream keeps its order
	unacked  int       // bytes that take room in the writer's buffer
	owed     int       // bytes read whose acknowledgement could not travel back yet

	writeErr error   // what the writer's own calls get once it sent its end, closed or crashed
	closed   bool    // the writer is wholly over, not only half closed
	readErr  error   // the reader's own end is over
	toReader *signal // end of data (io.EOF) or a reset on its way to the reader
	toWriter *signal // the news that nobody reads any more on its way to the writer
}

func newStream(n *Network, from, to string) *stream {
	return &stream{n: n, from: from, to: to, notify: make(chan struct{})}
}

// wake makes both ends look at the state again.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

func (s *stream) wakeLocked() {
	close(s.notify)
	s.notify = make(chan struct{})
}

// read fills p with what has arrived, blocking until there is something, the end, or the deadline.
func (s *stream) read(p []byte, dl *deadline) (int, error) {
	for {
		count, wait, notify, err := s.tryRead(p, dl)
		if count > 0 || err != nil || len(p) == 0 {
			return count, err
		}
		block(notify, dl.wait(), wait)
	}
}

// tryRead returns data or an error if there is one now, else how long until something under way arrives (0: unknown)
// and the channel that tells of changes.
func (s *stream) tryRead(p []byte, dl *deadline) (int, time.Duration, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr != nil {
		return 0, 0, nil, s.readErr
	}
	if dl.passed() {
		return 0, 0, nil, os.ErrDeadlineExceeded
	}
	if !s.n.open(s.from, s.to) {
		return 0, 0, s.notify, nil
	}
	if len(s.segments) > 0 {
		if left := time.Until(s.segments[0].at); left > 0 {
			return 0, left, s.notify, nil
		}
		return s.takeLocked(p), 0, nil, nil
	}
	if s.toReader != nil {
		if left := time.Until(s.toReader.at); left > 0 {
			return 0, left, s.notify, nil
		}
		return 0, 0, nil, s.toReader.err
	}
	return 0, 0, s.notify, nil
}

// takeLocked moves arrived bytes into p and acknowledges them.
func (s *stream) takeLocked(p []byte) int {
	now, total := time.Now(), 0
	for len(s.segments) > 0 && total < len(p) && !s.segments[0].at.After(now) {
		first := &s.segments[0]
		k := copy(p[total:], first.data)
		total += k
		first.data = first.data[k:]
		if len(first.data) == 0 {
			s.segments = s.segments[1:]
		}
	}
	s.owed += total
	s.settleLocked()
	return total
}

// settleLocked lets acknowledgements through to the writer if the way back is open.
func (s *stream) settleLocked() {
	if s.owed > 0 && s.n.open(s.to, s.from) {
		s.unacked -= s.owed
		s.owed = 0
		s.wakeLocked()
	}
}

// write queues all of p, blocking while the buffer is full.
func (s *stream) write(p []byte, dl *deadline) (int, error) {
	total := 0
	for {
		count, wait, notify, err := s.tryWrite(p[total:], dl)
		total += count
		if err != nil || total == len(p) {
			return total, err
		}
		if count == 0 {
			block(notify, dl.wait(), wait)
		}
	}
}

// tryWrite queues what there is room for; the results are those of tryRead.
func (s *stream) tryWrite(p []byte, dl *deadline) (int, time.Duration, <-chan struct{}, error) {
	delay := s.n.reliableDelay(s.from, s.to, SegmentRetransmit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil {
		return 0, 0, nil, s.writeErr
	}
	if dl.passed() {
		return 0, 0, nil, os.ErrDeadlineExceeded
	}
	s.settleLocked()
	var wait time.Duration
	if s.toWriter != nil && s.n.open(s.to, s.from) {
		wait = time.Until(s.toWriter.at)
		if wait <= 0 {
			return 0, 0, nil, s.toWriter.err
		}
	}
	k := min(len(p), StreamBufferBytes-s.unacked)
	if k == 0 {
		return 0, wait, s.notify, nil
	}
	if s.readErr == nil { // else nobody will ever read it
		s.segments = append(s.segments, segment{data: append([]byte(nil), p[:k]...), at: s.arrivalLocked(delay)})
	}
	s.unacked += k
	s.wakeLocked()
	return k, 0, nil, nil
}

// arrivalLocked returns when something sent now arrives, never before what was sent earlier.
func (s *stream) arrivalLocked(delay time.Duration) time.Time {
	if at := time.Now().Add(delay); at.After(s.lastAt) {
		s.lastAt = at
	}
	return s.lastAt
}

// finish ends the data but leaves the rest of the connection alone.
func (s *stream) finish() {
	delay := s.n.delay(s.from, s.to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil {
		return
	}
	s.writeErr = syscall.EPIPE
	s.toReader = &signal{err: io.EOF, at: s.arrivalLocked(delay)}
	s.wakeLocked()
}

// endWrite ends the writer's side: its own calls get own, the reader gets last after the data already sent.
func (s *stream) endWrite(own, last error) {
	delay := s.n.delay(s.from, s.to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.writeErr = true, own
	s.toReader = &signal{err: last, at: s.arrivalLocked(delay)}
	s.wakeLocked()
}

// endRead ends the reader's side: its own calls get own, the writer gets last; what was not read is gone.
func (s *stream) endRead(own, last error) {
	delay := s.n.delay(s.to, s.from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr != nil {
		return
	}
	s.readErr = own
	s.segments = nil
	s.toWriter = &signal{err: last, at: time.Now().Add(delay)}
	s.wakeLocked()
}

// block waits for a change, the deadline, or wait (if above zero) to pass.
func block(notify, expired <-chan struct{}, wait time.Duration) {
	var arrival <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		arrival = timer.C
	}
	select {
	case <-notify:
	case <-expired:
	case <-arrival:
	}
}
