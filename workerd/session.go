//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Why a session ended, beside what the stream itself says, and rehelloError.
var (
	errUnanswered = errors.New("the leader has not answered in time")
	errSuspect    = errors.New("the leader is silent and gossip calls it failed")
	errUnexpected = errors.New("unexpected message")
	errEnded      = errors.New("the leader ended the session")
	errAnew       = errors.New("the worker begins another session")
)

// rehelloError ends a session in which the leader asked for a new Hello.
type rehelloError struct{ asked *model.Rehello }

func (e *rehelloError) Error() string { return "the leader asks for a new Hello: " + e.asked.Reason }

// sessionOwner is the agent as its session sees it. All methods may block until the agent has time,
// or ctx ends.
type sessionOwner interface {
	// hello returns the first message of a new session.
	hello(ctx context.Context) (model.WorkerHello, error)
	// welcome checks and takes note of the answer. From then on what the agent has to say is sent
	// to up, until closed.
	welcome(ctx context.Context, leader string, w *model.WorkerWelcome, up chan<- model.WorkerUp) error
	// rehello counts a new incarnation, with which hello then answers.
	rehello(ctx context.Context, r *model.Rehello) error
	// order delivers everything else but beats.
	order(ctx context.Context, down model.WorkerDown) error
	// closed ends what welcome began.
	closed()
	// foreignCluster takes note of whose masters have refused this worker, and returns its own cluster.
	foreignCluster(ctx context.Context, theirs model.ClusterIdentity) model.ClusterIdentity
}

// opener opens a stream to a master. release frees what is below the stream.
type opener func(ctx context.Context, addr string, proxied bool) (stream rpc.WorkerSessionClient, release func() error, err error)

// dialOpener opens streams by gRPC.
func dialOpener(cfg rpc.DialConfig) opener {
	return func(ctx context.Context, addr string, proxied bool) (rpc.WorkerSessionClient, func() error, error) {
		conn, err := rpc.Dial(addr, cfg)
		if err != nil {
			return nil, nil, err
		}
		open := rpc.OpenWorkerSession
		if proxied {
			open = rpc.OpenProxiedWorkerSession
		}
		s, err := open(ctx, conn)
		if err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
		return s, conn.Close, nil
	}
}

// sessions holds one session to the leader at any time it can. run is its only goroutine.
type sessions struct {
	log    hclog.Logger
	finder *client.LeaderFinder
	open   opener
	owner  sessionOwner
	// contact learns what a leader has answered.
	contact *contact
	// identify asks a master for its cluster.
	identify func(ctx context.Context, addr string) (model.ClusterIdentity, error)

	suspects    chan string   // gRPC addresses of masters that gossip calls failed; capacity 1
	again       chan struct{} // capacity 1: the present session is to end
	toldForeign bool          // that masters are of another cluster
	told        string        // the last trouble logged, so that it is logged once
	short       int           // sessions in a row that ended at once

	hint      string // leader named by a standby, "" = none
	undialled int    // attempts in a row at hint that reached nobody
}

func newSessions(log hclog.Logger, finder *client.LeaderFinder, open opener, owner sessionOwner, c *contact) *sessions {
	return &sessions{log: log, finder: finder, open: open, owner: owner, contact: c, suspects: make(chan string, 1), again: make(chan struct{}, 1)}
}

// suspect says that gossip calls the master at addr failed. If it is the leader and has fallen
// silent, the session is given up at once. Never blocks.
func (s *sessions) suspect(addr string) {
	select {
	case s.suspects <- addr:
	default: // the session will find out by itself
	}
}

// anew ends the present session, so that another Hello is said. Never blocks.
func (s *sessions) anew() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// run keeps a session until ctx ends.
func (s *sessions) run(ctx context.Context) {
	for ctx.Err() == nil {
		addr := s.finder.Next()
		if addr == "" {
			s.trouble(ctx, "no master is known yet", nil)
		} else {
			begun := time.Now()
			welcomed, err := s.attempt(ctx, addr)
			lived := time.Since(begun)
			// The leader ends the stream behind this word. It is obeyed here, where that end
			// cannot overtake it: an agent with no time just now would not hear of it.
			var rehello *rehelloError
			if errors.As(err, &rehello) {
				if refused := s.owner.rehello(ctx, rehello.asked); refused != nil {
					err = refused
				}
			}
			s.after(ctx, addr, welcomed, lived, err)
		}
		if s.finder.Wait(ctx) != nil {
			return
		}
	}
}

// after takes note of how an attempt ended, and waits if attempts end too quickly.
func (s *sessions) after(ctx context.Context, addr string, welcomed bool, lived time.Duration, err error) {
	if ctx.Err() != nil {
		return
	}
	var rehello *rehelloError
	again := errors.As(err, &rehello) || errors.Is(err, errAnew)
	switch {
	case errors.Is(err, errAnew):
		s.log.Info("beginning another session", "leader", addr)
	case again:
		s.log.Warn("declared dead by the leader, registering anew", "leader", addr, "err", err)
	case welcomed:
		s.log.Warn("session lost, looking for the leader", "leader", addr, "err", err)
		s.finder.Failed(addr, err)
	case errors.Is(err, model.ErrForeignCluster), errors.Is(err, model.ErrStaleEpoch):
		s.foreign(ctx, addr, err)
		s.finder.Failed(addr, err)
	default:
		s.trouble(ctx, "no session with a leader yet", fmt.Errorf("%s: %w", addr, err))
		s.finder.Failed(addr, err)
	}
	hint, hinted := rpc.LeaderHint(err)
	s.noteHint(addr, hint, welcomed, err)
	if hinted || (!welcomed && !again) || lived > backoffMax {
		s.short = 0
		return
	}
	pause(ctx, min(backoffMax, backoffFirst<<min(s.short, 10)))
	s.short++
}

// noteHint counts attempts at the leader that standbys name and that cannot be
// dialled from here: after a few of them a standby is asked to pass the session
// on.
func (s *sessions) noteHint(addr, hint string, welcomed bool, err error) {
	switch {
	case welcomed:
		s.hint, s.undialled = "", 0
	case hint != "" && hint != s.hint:
		s.hint, s.undialled = hint, 0
	case addr == s.hint && !rpc.Answered(err):
		s.undialled++
	case addr != s.hint && hint == "":
		s.undialled = 0 // the standby could not pass it on either
	}
}

// trouble logs a change of what is wrong.
func (s *sessions) trouble(ctx context.Context, what string, err error) {
	text := what
	if err != nil {
		text = err.Error()
	}
	if ctx.Err() != nil || s.told == text {
		return
	}
	// Standbys take turns in saying that there is no leader: one line is enough.
	if s.told != "" && (errors.Is(err, model.ErrNotLeader) || errors.Is(err, model.ErrNoLeader)) {
		return
	}
	s.told = text
	if err != nil {
		s.log.Info(what, "err", err)
		return
	}
	s.log.Info(what)
}

// attempt runs one session with the master at addr to its end. welcomed says whether it was
// accepted.
func (s *sessions) attempt(ctx context.Context, addr string) (welcomed bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	proxied := s.undialled >= undialledBeforeProxy && addr != s.hint
	stream, release, err := s.open(ctx, addr, proxied)
	if err != nil {
		return false, err
	}
	down := make(chan model.WorkerDown)
	var reader sync.WaitGroup
	reader.Go(func() { read(ctx, stream, down, cancel) })
	defer func() {
		cancel(nil)
		_ = stream.Close()
		_ = release()
		reader.Wait()
	}()
	// Whatever blocks below, a leader that says nothing in time ends it.
	watchdog := time.AfterFunc(helloTimeout, func() { cancel(errUnanswered) })
	defer watchdog.Stop()

	hello, err := s.owner.hello(ctx)
	if err != nil {
		return false, err
	}
	sent := s.contact.now()
	if err := stream.Send(model.WorkerUp{Hello: &hello}); err != nil {
		return false, s.why(ctx, err)
	}
	welcome, err := s.first(ctx, down)
	if err != nil {
		return false, err
	}
	up := make(chan model.WorkerUp)
	if err := s.owner.welcome(ctx, addr, welcome, up); err != nil {
		return false, err
	}
	defer s.owner.closed()
	s.finder.Reached(addr)
	s.finder.AddSeeds(welcome.Masters)
	s.told, s.toldForeign = "", false
	l := live{
		sessions: s, addr: addr, stream: stream, down: down, up: up, watchdog: watchdog,
		beat: milli(welcome.BeatMilli, minBeat, maxBeat), heard: time.Now(),
		death: milli(welcome.DeathMilli, minDeath, maxDeath),
	}
	l.patience = patienceWith(l.beat, l.death)
	s.contact.answered(sent, l.death)
	return true, l.run(ctx)
}

// first waits for the answer to Hello.
func (s *sessions) first(ctx context.Context, down <-chan model.WorkerDown) (*model.WorkerWelcome, error) {
	select {
	case d := <-down:
		switch {
		case d.Welcome != nil:
			return d.Welcome, nil
		case d.Rehello != nil:
			return nil, &rehelloError{d.Rehello}
		}
		return nil, fmt.Errorf("answer to Hello: %w", errUnexpected)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// why returns the reason for which the session has ended after a Send failed with err: reading the
// stream tells it, at once.
func (s *sessions) why(ctx context.Context, err error) error {
	pause(ctx, reasonTimeout)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// read passes on what arrives. It ends ctx with the stream's error.
func read(ctx context.Context, stream rpc.WorkerSessionClient, down chan<- model.WorkerDown, end context.CancelCauseFunc) {
	for {
		d, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errEnded
			}
			end(err)
			return
		}
		select {
		case down <- d:
		case <-ctx.Done():
			return
		}
	}
}

// live is a session that was welcomed.
type live struct {
	*sessions
	addr     string
	stream   rpc.WorkerSessionClient
	down     <-chan model.WorkerDown
	up       <-chan model.WorkerUp
	watchdog *time.Timer
	beat     time.Duration
	death    time.Duration // worker_timeout
	patience time.Duration
	heard    time.Time // when the leader last said anything
	beats    beats
	due      *time.Timer // for the next beat
	last     time.Time   // when a beat was last sent
}

// patienceWith is how long a silent leader is stayed with: there has to be time for another session
// before singletons are ended, and before the leader calls this worker dead; but a few beats may get
// lost. Never more than half of death.
func patienceWith(beat, death time.Duration) time.Duration {
	return min(death/2, max(silentBeats*beat, death*patienceTenths/10))
}

func (l *live) run(ctx context.Context) error {
	select {
	case <-l.again: // meant for an earlier session
	default:
	}
	l.watchdog.Reset(l.patience)
	l.due = time.NewTimer(l.beat)
	defer l.due.Stop()
	for {
		var up model.WorkerUp
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case d := <-l.down:
			l.heard = time.Now()
			l.watchdog.Reset(l.patience)
			if err := l.received(ctx, d); err != nil {
				return err
			}
			continue
		case <-l.again:
			return errAnew
		case addr := <-l.suspects:
			if addr == l.addr && time.Since(l.heard) > l.beat+l.beat/2 {
				return errSuspect
			}
			continue
		case <-l.due.C:
			l.due.Reset(l.beat) // unless the answer says otherwise
			l.last = time.Now()
			up = model.WorkerUp{Beat: &model.Beat{Number: l.beats.next(l.contact.now())}}
		case up = <-l.up:
		}
		if err := l.stream.Send(up); err != nil {
			return l.why(ctx, err)
		}
	}
}

func (l *live) received(ctx context.Context, d model.WorkerDown) error {
	switch {
	case d.BeatAck != nil:
		if sent, ok := l.beats.answered(d.BeatAck.Number); ok {
			l.contact.answered(sent, l.death)
		}
		if d.BeatAck.Number == l.beats.number && d.BeatAck.NextMicro > 0 {
			l.due.Reset(max(time.Millisecond, l.asked(d.BeatAck.NextMicro)-time.Since(l.last)))
		}
		return nil
	case d.Rehello != nil:
		return &rehelloError{d.Rehello}
	case d.Welcome != nil:
		return fmt.Errorf("second Welcome: %w", errUnexpected)
	}
	return l.owner.order(ctx, d)
}

// asked is the time between two beats that a leader asks for, within what it may.
func (l *live) asked(micro int64) time.Duration {
	slack := l.beat / model.BeatSlack
	most := l.beat + slack
	return max(slack, time.Duration(min(micro, most.Microseconds()))*time.Microsecond)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
