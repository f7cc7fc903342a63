package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Timings of a driver session.
const (
	// DefaultBeatTimeout is how long a driver keeps a session on which no beat
	// is answered.
	DefaultBeatTimeout = 5 * time.Second
	// defaultBeat is the interval of beats until the leader names one, and
	// minBeat the shortest that it may name.
	defaultBeat = time.Second
	minBeat     = 10 * time.Millisecond
	// undialableFor is how long a leader that could not be dialled is reached
	// through a standby before a direct connection is tried again.
	undialableFor = 30 * time.Second
)

// DriverHandler is told what happens to an application's executors. Calls come
// from Run, one at a time, and must not block.
type DriverHandler interface {
	// ExecutorChanged is called for each executor that is new or has changed
	// since the last call. One that ended while there was no session comes as
	// LOST with a reason.
	ExecutorChanged(e model.DriverExecutor)
	// Ended is called once, when the application is over; Run then returns.
	Ended(e model.DriverEnded)
}

// DriverConfig describes one application's driver session.
type DriverConfig struct {
	App   model.AppID
	Token model.Secret
	// Addr is where executors reach the driver.
	Addr    string
	Handler DriverHandler
	// Linked, if set, is told that a session has brought the whole list (true),
	// and that it is lost (false). It is called from Run and must not block.
	Linked func(up bool)
	// BeatTimeout is how long an unanswered session is kept; 0 = DefaultBeatTimeout.
	BeatTimeout time.Duration
}

// DriverSession keeps the session of one application with whoever leads.
type DriverSession struct {
	c      *Client
	cfg    DriverConfig
	log    hclog.Logger
	finder *LeaderFinder

	wake chan struct{} // a confirmation waits

	mu      sync.Mutex
	pending map[model.ExecutorID]bool // confirmed, not yet seen as RUNNING; true: not sent

	// Owned by Run.
	known      map[model.ExecutorID]model.DriverExecutor
	undialable map[string]time.Time // leader address -> when it failed
	connected  bool
}

// OpenDriver makes the caller's end of a driver session; Run connects it.
func (c *Client) OpenDriver(cfg DriverConfig) (*DriverSession, error) {
	if cfg.App == "" || cfg.Handler == nil {
		return nil, fmt.Errorf("open driver session: %w: needs an application and a handler", model.ErrInvalid)
	}
	if cfg.BeatTimeout <= 0 {
		cfg.BeatTimeout = DefaultBeatTimeout
	}
	f := NewLeaderFinder(c.cfg.Masters, c.childRand())
	f.AddSeeds(c.leader.Seeds())
	f.Hint(c.leader.Leader())
	return &DriverSession{
		c: c, cfg: cfg, finder: f,
		log:        c.log.With("app", string(cfg.App)),
		wake:       make(chan struct{}, 1),
		pending:    map[model.ExecutorID]bool{},
		known:      map[model.ExecutorID]model.DriverExecutor{},
		undialable: map[string]time.Time{},
	}, nil
}

// Confirm tells the leader that executors have registered with the driver. It
// does not block; the message is repeated until the leader shows the executor
// as RUNNING or ended. Safe for concurrent use.
func (d *DriverSession) Confirm(ids ...model.ExecutorID) {
	d.mu.Lock()
	for _, id := range ids {
		d.pending[id] = true
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run keeps the session until the application has ended (nil), the leader
// refuses it (model.ErrUnauthenticated, ErrNotFound, ErrEnded, ErrInvalid), or
// ctx ends (its error). Call it once.
func (d *DriverSession) Run(ctx context.Context) error {
	for {
		addr := d.finder.Next()
		err := d.tryDirect(ctx, addr)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("driver session of %s: %w", d.cfg.App, ctx.Err())
		case refused(err):
			return fmt.Errorf("driver session of %s: %w", d.cfg.App, err)
		}
		d.finder.Failed(addr, err)
		d.noteLost(err)
		if err := d.finder.Wait(ctx); err != nil {
			return fmt.Errorf("driver session of %s: %w", d.cfg.App, err)
		}
	}
}

// refused reports whether the leader's answer cannot change.
func refused(err error) bool {
	return errors.Is(err, errClosed) || rpc.Answered(err) && judge(err) == final &&
		(errors.Is(err, model.ErrUnauthenticated) || errors.Is(err, model.ErrNotFound) ||
			errors.Is(err, model.ErrEnded) || errors.Is(err, model.ErrInvalid) || errors.Is(err, model.ErrRefused))
}

// noteLost writes one line when a session is lost, none for each retry.
func (d *DriverSession) noteLost(err error) {
	if d.connected {
		d.link(false)
		d.log.Info("driver session lost, looking for the leader", "err", err)
		return
	}
	d.log.Trace("no driver session yet", "err", err)
}

// tryDirect opens a session at addr. When that master is a standby and the
// leader it names cannot be dialled from here, the standby passes the session
// on.
func (d *DriverSession) tryDirect(ctx context.Context, addr string) error {
	err := d.session(ctx, addr, false)
	hint, ok := rpc.LeaderHint(err)
	if !ok {
		return err
	}
	since, bad := d.undialable[hint]
	if !bad || time.Since(since) > undialableFor {
		delete(d.undialable, hint)
		herr := d.session(ctx, hint, false)
		if herr == nil || rpc.Answered(herr) || d.connected || ctx.Err() != nil {
			return herr
		}
	}
	err = d.session(ctx, addr, true)
	if d.connected && !bad { // the standby reached it, so it lives
		d.undialable[hint] = time.Now()
	}
	return err
}

// session runs one session at addr: nil once the application has ended.
func (d *DriverSession) session(ctx context.Context, addr string, proxy bool) error {
	conn, err := d.c.conn(addr)
	if err != nil {
		return err
	}
	s, err := rpc.OpenDriverSession(ctx, conn, proxy)
	if err != nil {
		return err
	}
	l := &live{d: d, s: s, r: newReceiver(s), addr: addr, proxy: proxy, beat: time.NewTicker(defaultBeat)}
	defer l.r.stop()
	defer l.beat.Stop()
	hello := model.DriverHello{App: d.cfg.App, Token: d.cfg.Token, Addr: d.cfg.Addr}
	if err := s.Send(model.DriverUp{Hello: &hello}); err != nil {
		return l.r.reason(err, d.cfg.BeatTimeout)
	}
	return l.run(ctx)
}

// live is one open session; owned by Run.
type live struct {
	d      *DriverSession
	s      rpc.DriverSessionClient
	r      *receiver
	addr   string
	proxy  bool
	beat   *time.Ticker
	number uint64 // of the last beat
	listed bool   // the whole list has come
}

// run serves the session: nil once the application has ended.
func (l *live) run(ctx context.Context) error {
	limit := l.d.cfg.BeatTimeout
	lastHeard := time.Now()
	silence := time.NewTimer(limit)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			left := limit - time.Since(lastHeard)
			if left <= 0 {
				return fmt.Errorf("%w: master %s has not answered for %s", model.ErrUnavailable, l.addr, limit)
			}
			silence.Reset(left)
		case <-l.beat.C:
			l.number++
			err = l.s.Send(model.DriverUp{Beat: &model.Beat{Number: l.number}})
			if err == nil {
				err = l.confirm(true)
			}
		case <-l.d.wake:
			err = l.confirm(false)
		case in := <-l.r.ch:
			if in.err != nil {
				return in.err
			}
			lastHeard = time.Now()
			if in.msg.Ended != nil {
				l.d.cfg.Handler.Ended(*in.msg.Ended)
				return nil
			}
			err = l.take(in.msg)
		}
		if err != nil {
			return l.r.reason(err, limit)
		}
	}
}

// take applies one message other than the end.
func (l *live) take(m model.DriverDown) error {
	if m.Change != nil {
		l.d.change(*m.Change)
	}
	list := m.Executors
	if list == nil {
		return nil
	}
	l.listed = true
	l.d.established(l.addr, l.proxy)
	if list.BeatMilli > 0 {
		l.beat.Reset(max(minBeat, time.Duration(list.BeatMilli)*time.Millisecond))
	}
	l.d.replace(*list)
	return l.confirm(true)
}

// confirm sends what waits to be confirmed: what has not been sent, or all that
// the leader has not shown as confirmed. Before the list it cannot know.
func (l *live) confirm(all bool) error {
	if !l.listed {
		return nil
	}
	return l.d.sendConfirm(l.s, all)
}

func (d *DriverSession) established(addr string, proxy bool) {
	if !d.connected {
		d.log.Info("driver session established", "master", addr, "proxied", proxy)
	}
	d.link(true)
	d.finder.Reached(addr)
}

func (d *DriverSession) link(up bool) {
	if d.connected != up && d.cfg.Linked != nil {
		d.cfg.Linked(up)
	}
	d.connected = up
}

// replace compares the whole list with what is known.
func (d *DriverSession) replace(l model.DriverExecutors) {
	listed := make(map[model.ExecutorID]bool, len(l.Executors))
	for _, e := range l.Executors {
		listed[e.ID] = true
		d.change(e)
	}
	var gone []model.ExecutorID
	for id := range d.known {
		if !listed[id] {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	for _, id := range gone {
		e := d.known[id]
		e.State, e.Terminal, e.Cause, e.Index = model.ExecutorLost, true, model.CauseInfra, l.Index
		e.Reason = "ended while the driver had no session with the leader"
		d.change(e)
	}
}

// change tells the handler of one executor unless it is known already, and
// forgets executors that have ended.
func (d *DriverSession) change(e model.DriverExecutor) {
	old, have := d.known[e.ID]
	if have && e.Index <= old.Index && e.State == old.State {
		d.settle(e)
		return
	}
	if e.Ended() {
		delete(d.known, e.ID)
	} else {
		d.known[e.ID] = e
	}
	d.settle(e)
	d.cfg.Handler.ExecutorChanged(e)
}

// settle drops a confirmation that the leader has taken or that is void.
func (d *DriverSession) settle(e model.DriverExecutor) {
	if !e.Ended() && !e.State.Confirmed() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, e.ID)
}

func (d *DriverSession) sendConfirm(s rpc.DriverSessionClient, all bool) error {
	d.mu.Lock()
	ids := make([]model.ExecutorID, 0, len(d.pending))
	for id, unsent := range d.pending {
		// Not listed: it has ended, or its announcement is on the way.
		if _, ok := d.known[id]; ok && (all || unsent) {
			ids = append(ids, id)
			d.pending[id] = false
		}
	}
	d.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return s.Send(model.DriverUp{Confirm: ids})
}

// received is one message or the end of the stream.
type received struct {
	msg model.DriverDown
	err error
}

// receiver reads a session in its own goroutine, joined by stop.
type receiver struct {
	s    rpc.DriverSessionClient
	ch   chan received
	quit chan struct{}
	done chan struct{}
}

func newReceiver(s rpc.DriverSessionClient) *receiver {
	r := &receiver{s: s, ch: make(chan received), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			msg, err := s.Recv()
			select {
			case r.ch <- received{msg, err}:
			case <-r.quit:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return r
}

// stop closes the session and waits for the goroutine.
func (r *receiver) stop() {
	close(r.quit)
	_ = r.s.Close() // only frees the stream
	<-r.done
}

// reason returns what the server said when a Send failed: the stream's status
// comes from Recv alone.
func (r *receiver) reason(sendErr error, limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		select {
		case in := <-r.ch:
			if in.err != nil {
				return in.err
			}
		case <-t.C:
			return sendErr
		}
	}
}
