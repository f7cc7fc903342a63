package raftnode

import (
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// wire is a pipeline that notes what is sent and never answers.
type wire struct {
	hold chan struct{} // messages wait until it is closed; nil: they do not
	mu   sync.Mutex
	sent []raft.AppendEntriesRequest
}

func (w *wire) all() []raft.AppendEntriesRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

func (w *wire) AppendEntries(m *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if w.hold != nil {
		<-w.hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, *m)
	return repeated{m: m, answer: answer}, nil
}
func (w *wire) Consumer() <-chan raft.AppendFuture { return nil }
func (w *wire) Close() error                       { return nil }

// speech is the leader of term 3 that speaks to one follower whose log ends
// with entry 4.
type speech struct {
	t    *testing.T
	news *news
	p    *pipeline
	prev LogEnd
}

// say is what the library does: it tells what is committed and sends entries of
// term 3.
func (s *speech) say(commit uint64, entries ...uint64) {
	s.t.Helper()
	m := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: s.prev.Index, PrevLogTerm: s.prev.Term, LeaderCommitIndex: commit}
	for _, e := range entries {
		m.Entries, s.prev = append(m.Entries, &raft.Log{Index: e, Term: 3}), LogEnd{e, 3}
	}
	if _, err := s.p.AppendEntries(m, new(raft.AppendEntriesResponse)); err != nil {
		s.t.Error(err)
	}
}

// spoken returns what went out over a pipeline, in virtual time.
func spoken(t *testing.T, speak func(s *speech)) []raft.AppendEntriesRequest {
	t.Helper()
	w := new(wire)
	synctest.Test(t, func(t *testing.T) {
		n := newNews()
		s := &speech{t: t, news: n, p: newPipeline(w, onDisk, n), prev: LogEnd{4, 2}}
		speak(s)
		if err := s.p.Close(); err != nil {
			t.Error(err)
		}
		before := len(w.all())
		n.committed(LogEnd{100, 3}) // nobody hears it
		time.Sleep(time.Minute)
		if after := len(w.all()); len(n.open) != 0 || after != before {
			t.Errorf("a closed pipeline: %d are open, %d messages went out", len(n.open), after-before)
		}
	})
	return w.all()
}

// line is what a message says.
type line struct {
	prev    LogEnd
	commit  uint64
	entries int
}

func wantLines(t *testing.T, sent []raft.AppendEntriesRequest, want ...line) {
	t.Helper()
	var got []line
	for _, m := range sent {
		got = append(got, line{LogEnd{m.PrevLogEntry, m.PrevLogTerm}, m.LeaderCommitIndex, len(m.Entries)})
		if m.Term != 3 {
			t.Errorf("a message of term %d: %+v", m.Term, m)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages went out, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("message %d says %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestAFollowerLearnsAtOnceWhatIsCommitted(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.say(4, 5, 6)
		s.news.committed(LogEnd{5, 3})
		s.news.committed(LogEnd{6, 3})
		time.Sleep(2 * newsAfter)
		s.say(6, 7, 8)
		s.news.committed(LogEnd{7, 3}) // and 8 is not
		time.Sleep(2 * newsAfter)
	})
	wantLines(t, sent, line{LogEnd{4, 2}, 4, 2}, line{LogEnd{6, 3}, 6, 0}, line{LogEnd{6, 3}, 6, 2}, line{LogEnd{7, 3}, 7, 0})
}

func TestNewsThatTravelWithEntriesAreNotToldTwice(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.say(4, 5)
		s.news.committed(LogEnd{5, 3})
		s.say(5, 6)
		time.Sleep(2 * newsAfter)
	})
	wantLines(t, sent, line{LogEnd{4, 2}, 4, 1}, line{LogEnd{5, 3}, 5, 1})
}

// The library had made the message before it knew.
func TestNewsOfAMomentBeforeTheEntriesAreToldAfterThem(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.say(4)
		s.news.committed(LogEnd{5, 3}) // the others have it, this follower was not sent it yet
		time.Sleep(2 * newsAfter)
		s.say(4, 5)
		time.Sleep(2 * newsAfter)
	})
	wantLines(t, sent, line{LogEnd{4, 2}, 4, 0}, line{LogEnd{4, 2}, 4, 1}, line{LogEnd{5, 3}, 5, 0})
}

func TestNewsOfAnotherTermAreNotTold(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.news.committed(LogEnd{4, 2}) // nothing has been said in this term yet
		time.Sleep(2 * newsAfter)
		s.say(3, 5)
		s.news.committed(LogEnd{4, 2}) // of the term before
		time.Sleep(2 * newsAfter)
		s.news.committed(LogEnd{5, 4}) // of the successor
		time.Sleep(2 * newsAfter)
	})
	wantLines(t, sent, line{LogEnd{4, 2}, 3, 1})
}

func TestWhatWasSaidIsRepeatedOnceASecond(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.say(4, 5)
		s.news.committed(LogEnd{5, 3})
		time.Sleep(2 * newsAfter)
		for range 10*repeatAfter/commitTimeout - 1 {
			time.Sleep(commitTimeout)
			s.say(5)
		}
	})
	if len(sent) != 2+9 {
		t.Errorf("%d messages in ten seconds, want an entry, news and 9 repetitions", len(sent))
	}
}

// A leader that hands over asks until its follower has caught up; what it says
// is held up by the network, or it would ask without end.
func TestWhatIsNotSaidByTheClockIsSent(t *testing.T) {
	t.Parallel()
	sent := spoken(t, func(s *speech) {
		s.say(4, 5)
		for range 3 {
			s.say(4)
		}
	})
	wantLines(t, sent, line{LogEnd{4, 2}, 4, 1}, line{LogEnd{5, 3}, 4, 0}, line{LogEnd{5, 3}, 4, 0}, line{LogEnd{5, 3}, 4, 0})
}

// A follower may take nothing for as long as the time-out of a message.
func TestNewsForAFollowerThatTakesNothingDoNotPileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newNews(), &wire{hold: make(chan struct{})}
		s := &speech{t: t, news: n, p: newPipeline(w, onDisk, n), prev: LogEnd{4, 2}}
		var told atomic.Int32
		s.p.told.tell = func() { told.Add(1); s.p.tellCommitted() }
		go s.say(4, 5, 6)
		for range 100 {
			n.committed(LogEnd{5, 3})
			time.Sleep(newsAfter)
		}
		if got := told.Load(); got != 1 {
			t.Errorf("%d wait to tell the follower, want 1", got)
		}
		n.committed(LogEnd{6, 3})
		close(w.hold)
		time.Sleep(2 * newsAfter)
		wantLines(t, w.all(), line{LogEnd{4, 2}, 4, 2}, line{LogEnd{6, 3}, 6, 0})
		if err := s.p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// follower is the library's own, and a leader whom a test plays.
type follower struct {
	t      *testing.T
	state  *fsm.FSM
	leader *transport
	to     raft.ServerAddress
}

// withFollower runs a test with a follower whose log ends with entry 1, in
// virtual time and well within its election time-out.
func withFollower(t *testing.T, test func(f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(rand.New(rand.NewSource(1)))
		log, _ := newLog(t)
		listen := func(host string) StreamLayer {
			listener, err := net.Host(host).Listen(raftPort)
			if err != nil {
				t.Fatal(err)
			}
			return NewStream(listener, net.Host(host).Dial, host+raftPort, StreamTLS{})
		}
		f := &follower{t: t, state: fsm.New(), to: routeTo("m2", "m2"+raftPort)}
		node, err := Open(Config{ID: "m2", DataDir: t.TempDir(), Preset: PresetWAN},
			Deps{FSM: f.state, Stream: listen("m2"), Identity: ourCluster(), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		err = node.Bootstrap([]Server{{ID: "m1", Addr: "m1" + raftPort}, {ID: "m2", Addr: "m2" + raftPort}, {ID: "m3", Addr: "m3" + raftPort}})
		if err != nil {
			t.Fatal(err)
		}
		f.leader = newTransport(newHelloStream(listen("m1"), "m1", ourCluster(), log), func(model.MasterID) (string, bool) { return "", false }, onDisk, log)
		test(f)
		if err := f.leader.Close(); err != nil {
			t.Error(err)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // the library's last timers
	})
}

// says builds a message of the leader of a term; its entries are of that term.
func (f *follower) says(term uint64, prev LogEnd, commit uint64, entries ...uint64) *raft.AppendEntriesRequest {
	m := &raft.AppendEntriesRequest{
		RPCHeader: f.leader.header(), Term: term,
		PrevLogEntry: prev.Index, PrevLogTerm: prev.Term, LeaderCommitIndex: commit,
	}
	m.ID, m.Addr = []byte("m1"), []byte("m1"+raftPort)
	for _, e := range entries {
		data, err := fsm.EncodeBatch([]*replogv1.Command{command("")})
		if err != nil {
			f.t.Fatal(err)
		}
		m.Entries = append(m.Entries, &raft.Log{Index: e, Term: term, Type: raft.LogCommand, Data: data})
	}
	return m
}

// hears sends a message and waits for the answer, which must be yes.
func (f *follower) hears(m *raft.AppendEntriesRequest) {
	f.t.Helper()
	var answer raft.AppendEntriesResponse
	if err := f.leader.AppendEntries("m2", f.to, m, &answer); err != nil || !answer.Success {
		f.t.Fatalf("the follower answers %+v, %v", answer, err)
	}
}

// opens opens a pipeline and says one message over it.
func (f *follower) opens(m *raft.AppendEntriesRequest) *pipeline {
	f.t.Helper()
	opened, err := f.leader.AppendEntriesPipeline("m2", f.to)
	if err != nil {
		f.t.Fatal(err)
	}
	p := opened.(*pipeline)
	f.speaks(p, m)
	return p
}

// speaks says a message over a pipeline; the answer must be yes.
func (f *follower) speaks(p *pipeline, m *raft.AppendEntriesRequest) {
	f.t.Helper()
	if _, err := p.AppendEntries(m, new(raft.AppendEntriesResponse)); err != nil {
		f.t.Fatal(err)
	}
	if answer := <-p.Consumer(); answer.Error() != nil || !answer.Response().Success {
		f.t.Fatalf("the follower answers %+v, %v", answer.Response(), answer.Error())
	}
}

// applies demands what the follower has applied once everything has arrived.
func (f *follower) applies(want uint64, when string) {
	f.t.Helper()
	time.Sleep(10 * newsAfter)
	if got := f.state.View().Index(); got != want {
		f.t.Errorf("%s: the follower has applied everything up to %d, want %d", when, got, want)
	}
}

func TestSimAStaleEndOfALogIsNotTakenForCommitted(t *testing.T) {
	withFollower(t, func(f *follower) {
		f.hears(f.says(2, LogEnd{1, 1}, 1, 2, 3, 4)) // 3 and 4 have come to nobody else
		f.hears(f.says(2, LogEnd{4, 2}, 2))
		f.applies(2, "at first")
		p := f.opens(f.says(3, LogEnd{2, 2}, 2)) // the next leader has other entries 3 and 4
		f.leader.news.committed(LogEnd{4, 3})    // which the others have
		f.applies(2, "before it was sent what is committed")
		f.speaks(p, f.says(3, LogEnd{2, 2}, 2, 3, 4))
		f.applies(4, "after that")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSimADeposedLeaderTellsNobodyOfItsSuccessorsEntries(t *testing.T) {
	withFollower(t, func(f *follower) {
		p := f.opens(f.says(3, LogEnd{1, 1}, 1, 2, 3))
		f.leader.news.committed(LogEnd{2, 3})
		f.applies(2, "while it leads")
		f.leader.news.committed(LogEnd{3, 4}) // another entry, which it has applied as a follower
		f.applies(2, "once it follows")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSimAStandbyHasWhatWasJustMadeWithinMilliseconds(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		r.level()
		lead := r.leader()
		rng := rand.New(rand.NewSource(seed))
		for range 50 {
			time.Sleep(time.Duration(rng.Intn(300)) * time.Millisecond)
			result, err := lead.node.Propose(t.Context(), command(""))
			if err != nil {
				t.Fatal(err)
			}
			made := time.Now()
			for _, m := range r.members {
				eventually(t, "the entry at "+string(m.id), time.Second, func() bool { return m.fsm.View().Index() >= result.Index })
			}
			if took := time.Since(made); took > 3*newsAfter {
				t.Errorf("standbys had it after %s, want at most %s", took, 3*newsAfter)
			}
		}
		r.level()
	})
}
