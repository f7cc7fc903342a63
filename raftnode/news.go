package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// newsAfter is how soon a follower is told that an entry is committed when no
	// other entry follows it.
	newsAfter = 5 * time.Millisecond
	// repeatAfter is how often a follower is told what it has been told before,
	// which shows that the connection works.
	repeatAfter = time.Second
)

// news tells the followers what is committed as soon as there is something to
// tell. The library tells them at an interval, news or not; at one short enough
// for lists of standbys that is most of what an idle leader does (ADR 0047).
//
// The library's follower takes for committed whatever it has up to the index
// that a message names (raft.Raft.appendEntries: the smaller of LeaderCommitIndex
// and its own last index), which includes an end of its log that the leader does
// not have. So a message of ours names one entry, with index and term, three
// times: it is the committed one, the one that the follower must have for the
// message to be taken at all, and of the term of the message. Then
//
//   - it is sent only about an entry that is applied here, which every leader to
//     come has at that index with that term;
//   - a follower takes it only if it has an entry of that index and term. Two logs
//     that have one such entry are the same up to it (Raft, log matching), so what
//     the follower takes for committed is what is;
//   - an entry of term T was made by the leader of term T, and the message is sent
//     by a pipeline that this replica opened as that leader, with its name as the
//     sender. To a follower that is still in T it says who led T; one that has gone
//     on refuses it.
//
// None of this asks whether this replica leads still. One that does not may apply
// entries of its successor while its own pipelines are open; they are of another
// term and not told. Telling a follower about an index alone would be wrong in
// just this case, and in that of a follower whose log ends with entries that no
// majority ever had.
type news struct {
	mu   sync.Mutex
	open map[*pipeline]struct{} // only a leader has some
}

func newNews() *news { return &news{open: make(map[*pipeline]struct{})} }

func (n *news) add(p *pipeline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[p] = struct{}{}
}

func (n *news) drop(p *pipeline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, p)
}

// committed says that an entry has been applied. It does not block.
func (n *news) committed(entry LogEnd) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.open {
		p.told.soon(entry)
	}
}

// told is what a pipeline has told its follower.
type told struct {
	tell func() // tells the follower; it may block as long as the network

	mu     sync.Mutex  // of what follows
	known  LogEnd      // the newest entry that is applied here
	timer  *time.Timer // calls tell; nil until there was news
	armed  bool
	closed bool

	// sending has room for who sends, and who has it owns what follows. Not a
	// mutex: a wait for the network is no short one.
	sending chan struct{}
	said    raft.AppendEntriesRequest // the library's last message without its entries; of term 0 if there is none
	sent    LogEnd                    // the newest entry the follower was sent, or had before
	commit  uint64                    // what it was told
	at      time.Time                 // when
	asked   time.Time                 // when the library spoke last, repetitions included
}

// soon has the follower told of a newer entry, unless that is on its way.
func (t *told) soon(entry LogEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if entry.newer(t.known) {
		t.known = entry
	}
	t.armLocked()
}

func (t *told) armLocked() {
	switch {
	case t.armed || t.closed:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(newsAfter, t.tell)
	default:
		t.timer.Reset(newsAfter)
	}
	t.armed = true
}

// due takes what is to be told now.
func (t *told) due() LogEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	return t.known
}

func (t *told) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// note keeps what a message of the library says. If it was made before the
// newest entry was known to be committed, that is told later.
func (t *told) note(m *raft.AppendEntriesRequest) {
	t.said = *m
	t.said.Entries = nil // nobody needs them any more
	t.sent = LogEnd{m.PrevLogEntry, m.PrevLogTerm}
	if n := len(m.Entries); n > 0 {
		t.sent = LogEnd{m.Entries[n-1].Index, m.Entries[n-1].Term}
	}
	t.commit, t.at = m.LeaderCommitIndex, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known.Index > t.commit {
		t.armLocked()
	}
}

// repeats reports whether a message says only what the one before it said, not
// long ago and over the same connection. One that comes sooner than commitTimeout
// comes not by the clock: a leader that hands over says so again and again until
// its follower has answered, and must wait for the network in between.
func (t *told) repeats(m *raft.AppendEntriesRequest) bool {
	asked := t.asked
	t.asked = time.Now()
	return t.asked.Sub(asked) >= commitTimeout && len(m.Entries) == 0 && m.Term == t.said.Term && m.LeaderCommitIndex == t.commit &&
		t.sent == LogEnd{m.PrevLogEntry, m.PrevLogTerm} && time.Since(t.at) < repeatAfter
}

// message is what tells the follower of an entry; nil if it must not be told, see
// news, or need not.
func (t *told) message(entry LogEnd) *raft.AppendEntriesRequest {
	if entry.Term == 0 || entry.Term != t.said.Term || entry.Index > t.sent.Index || entry.Index <= t.commit {
		return nil
	}
	m := t.said // its sender and term
	m.PrevLogEntry, m.PrevLogTerm, m.LeaderCommitIndex = entry.Index, entry.Term, entry.Index
	return &m
}

// AppendEntries implements raft.AppendPipeline. A message that says nothing new
// is not sent. The library looks at no future that it gets here.
func (p *pipeline) AppendEntries(m *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if !p.enter() {
		return nil, raft.ErrPipelineShutdown
	}
	defer p.leave()
	if p.told.repeats(m) {
		return repeated{m, answer, p.told.at}, nil
	}
	future, err := p.AppendPipeline.AppendEntries(m, answer)
	if err != nil {
		return nil, err
	}
	p.told.note(m)
	return future, nil
}

// repeated is the future of a message that was said before.
type repeated struct {
	m      *raft.AppendEntriesRequest
	answer *raft.AppendEntriesResponse
	at     time.Time
}

// Error implements raft.Future.
func (repeated) Error() error { return nil }

// Start implements raft.AppendFuture: when it was said.
func (r repeated) Start() time.Time { return r.at }

// Request implements raft.AppendFuture.
func (r repeated) Request() *raft.AppendEntriesRequest { return r.m }

// Response implements raft.AppendFuture: nobody has answered.
func (r repeated) Response() *raft.AppendEntriesResponse { return r.answer }

// tellCommitted says what is committed, if the library has not said so yet.
func (p *pipeline) tellCommitted() {
	if !p.enter() { // until then there is no second one that waits
		return
	}
	defer p.leave()
	entry := p.told.due()
	m := p.told.message(entry)
	if m == nil {
		return
	}
	if _, err := p.AppendPipeline.AppendEntries(m, new(raft.AppendEntriesResponse)); err != nil {
		p.told.said.Term = 0 // nothing is a repetition: the library is to meet the error, too
		return
	}
	p.told.commit, p.told.at = entry.Index, time.Now()
}

// enter waits until nobody else sends; false when the pipeline is closed.
func (p *pipeline) enter() bool {
	select {
	case p.told.sending <- struct{}{}:
	case <-p.done:
		return false
	}
	select {
	case <-p.done:
		p.leave()
		return false
	default:
		return true
	}
}

func (p *pipeline) leave() { <-p.told.sending }
