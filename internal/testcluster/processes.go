//go:build linux

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
	"github.com/hearthd/hearth/workerd/keeper"
)

// firstPID is where the pretended process ids of a machine begin.
const firstPID = 1000

var errAgentGone = errors.New("the agent was killed")

// processes is what runs on one worker's machine, and the keeper's notes on its disk. It outlives the worker.
type processes struct {
	host  string
	rate  float64 // of the machine's clock
	run   func(req keeper.StartRequest) program
	books *ledger

	mu      sync.Mutex
	all     map[string]*pretended
	nextPID int
	keeper  *agentEnd // nil while no agent is attached
	kept    *time.Timer
	lease   keeper.Lease
	tries   int           // to start a command that the machine does not have
	ends    []*time.Timer // of the lease
}

// pretended is one process, running or with an exit that was not forgotten.
type pretended struct {
	entry keeper.Entry
	term  chan struct{} // closed by SIGTERM
	kill  chan struct{} // closed by SIGKILL
	asked bool          // somebody wanted it to end
	over  bool          // its lease has run out
	lease bool          // it has one
	gone  chan struct{} // closed when it has ended
}

func newProcesses(host string, rate float64, books *ledger, run func(keeper.StartRequest) program) *processes {
	return &processes{host: host, rate: rate, run: run, books: books, all: make(map[string]*pretended), nextPID: firstPID}
}

// life is one start of the worker as seen by the keeper.
type life struct {
	ps   *processes
	mu   sync.Mutex
	dead bool
}

// open implements workerd.OpenRunner for one start of the worker.
func (l *life) open(_ context.Context, worker string, _ []keeper.Proc) (workerd.Runner, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errAgentGone
	}
	return l.ps.attach(worker), nil
}

// end is the sudden death of the worker.
func (l *life) end() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.ps.mu.Lock()
	e := l.ps.keeper
	l.ps.mu.Unlock()
	if e != nil {
		e.lose(errAgentGone)
	}
}

func (ps *processes) attach(worker string) *agentEnd {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.kept != nil {
		ps.kept.Stop()
		ps.kept = nil
	}
	e := &agentEnd{ps: ps, worker: worker, events: make(chan keeper.Event), news: make(chan struct{}, 1), over: make(chan struct{})}
	ps.keeper = e
	go e.pump()
	return e
}

// running lists what has not ended.
func (ps *processes) running() []model.ExecutorRef {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []model.ExecutorRef
	for _, key := range slices.Sorted(maps.Keys(ps.all)) {
		if p := ps.all[key]; p.entry.State != keeper.StateExited {
			if ref, err := model.ParseExecutorRef(key); err == nil {
				out = append(out, ref)
			}
		}
	}
	return out
}

// killAll is SIGKILL for everything. It does not wait.
func (ps *processes) killAll() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.all {
		p.signal(syscall.SIGKILL)
	}
}

// vanish is a loss of power: nothing is left, and nobody knows how it ended.
func (ps *processes) vanish() {
	ps.killAll()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	maps.DeleteFunc(ps.all, func(_ string, p *pretended) bool { return p.entry.State != keeper.StateExited })
	if ps.kept != nil {
		ps.kept.Stop()
		ps.kept = nil
	}
}

// shutdown ends everything and waits, at the end of a test.
func (ps *processes) shutdown() {
	ps.killAll()
	ps.mu.Lock()
	var left []*pretended
	for _, p := range ps.all {
		left = append(left, p)
	}
	if ps.kept != nil {
		ps.kept.Stop()
	}
	ps.dropLease()
	ps.mu.Unlock()
	for _, p := range left {
		<-p.gone
	}
}

// signal is called with the lock held.
func (p *pretended) signal(sig syscall.Signal) {
	if p.entry.State == keeper.StateExited {
		return
	}
	p.asked = true
	ch := p.term
	if sig == syscall.SIGKILL {
		ch = p.kill
	}
	select {
	case <-ch:
	default:
		close(ch)
	}
}

func (ps *processes) start(req keeper.StartRequest) (keeper.Started, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all[req.Key] != nil {
		return keeper.Started{}, &keeper.Error{Reason: keeper.ReasonDuplicateKey, Detail: req.Key}
	}
	if missing(ps.host, req.Argv) {
		ps.tries++
		return keeper.Started{}, &keeper.Error{Reason: keeper.ReasonCommandNotFound, Detail: req.Argv[0]}
	}
	if req.Leased && ps.lease.TermAt <= ps.sinceBoot() {
		return keeper.Started{}, &keeper.Error{Reason: keeper.ReasonLeaseOver, Detail: req.Key}
	}
	ps.nextPID++
	p := &pretended{lease: req.Leased, term: make(chan struct{}), kill: make(chan struct{}), gone: make(chan struct{})}
	p.entry = keeper.Entry{
		Key: req.Key, State: keeper.StateRunning,
		Proc: keeper.Proc{PID: ps.nextPID, StartTicks: uint64(ps.nextPID), BootID: ps.host}, //nolint:gosec // small
	}
	ps.all[req.Key] = p
	ps.books.started(ps.host, req.Key, req.Leased)
	prog := ps.run(req)
	go func() {
		defer close(p.gone)
		x := prog(p.term, p.kill)
		ps.ended(p, x)
	}()
	return keeper.Started{Proc: p.entry.Proc}, nil
}

func (ps *processes) ended(p *pretended, x keeper.Exit) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	x.Time, x.KillRequested, x.LeaseOver = time.Now().UTC(), p.asked, p.over
	p.entry.State, p.entry.Stuck, p.entry.Exit = keeper.StateExited, false, &x
	ps.books.ended(p.entry.Key, p.lease)
	if ps.all[p.entry.Key] == p && ps.keeper != nil {
		ps.keeper.tell(keeper.Event{Kind: keeper.EventExited, Entry: p.entry})
	}
}

// outlived says that a process is still there a while after SIGKILL.
func (ps *processes) outlived(p *pretended) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.entry.State == keeper.StateExited || p.entry.Stuck {
		return
	}
	p.entry.Stuck = true
	if ps.keeper != nil {
		ps.keeper.tell(keeper.Event{Kind: keeper.EventStuck, Entry: p.entry})
	}
}

// murder is kill -9 by somebody who is neither the worker nor its keeper.
func (ps *processes) murder(key string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all[key]
	if p == nil || p.entry.State == keeper.StateExited {
		return false
	}
	select {
	case <-p.kill:
	default:
		close(p.kill)
	}
	return true
}

// renew takes a new lease; what is leased ends when that runs out.
func (ps *processes) renew(l keeper.Lease) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dropLease()
	ps.lease = l
	now := ps.sinceBoot()
	in := func(at time.Duration) time.Duration { return time.Duration(float64(at-now) / ps.rate) }
	ps.ends = []*time.Timer{
		time.AfterFunc(in(l.TermAt), func() { ps.expire(l, syscall.SIGTERM) }),
		time.AfterFunc(in(l.KillAt), func() { ps.expire(l, syscall.SIGKILL) }),
	}
}

// dropLease is called with the lock held.
func (ps *processes) dropLease() {
	for _, t := range ps.ends {
		t.Stop()
	}
	ps.ends = nil
}

func (ps *processes) expire(l keeper.Lease, sig syscall.Signal) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.all {
		if p.lease && ps.lease == l && p.entry.State != keeper.StateExited {
			p.over = true
			p.signal(sig)
		}
	}
}

// sinceBoot is the machine's clock of leases, which may run faster or slower than that of the bubble, whose time begins at
// midnight UTC of 2000-01-01.
func (ps *processes) sinceBoot() time.Duration {
	passed := time.Since(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC))
	return time.Hour + time.Duration(float64(passed)*ps.rate)
}

// agentEnd is the worker's connection to its keeper.
type agentEnd struct {
	ps     *processes
	worker string
	events chan keeper.Event
	news   chan struct{}
	over   chan struct{} // closed when the connection is lost or closed

	mu    sync.Mutex
	queue []keeper.Event
	keep  time.Duration
	since time.Time
	err   error
}

var _ workerd.Runner = (*agentEnd)(nil)

// tell queues an event. It never blocks.
func (e *agentEnd) tell(ev keeper.Event) {
	e.mu.Lock()
	e.queue = append(e.queue, ev)
	e.mu.Unlock()
	select {
	case e.news <- struct{}{}:
	default:
	}
}

func (e *agentEnd) pump() {
	defer close(e.events)
	for {
		e.mu.Lock()
		batch := e.queue
		e.queue = nil
		e.mu.Unlock()
		for _, ev := range batch {
			select {
			case e.events <- ev:
			case <-e.over:
				return
			}
		}
		select {
		case <-e.news:
		case <-e.over:
			return
		}
	}
}

// lose ends the connection, and what runs unless it is to be kept.
func (e *agentEnd) lose(why error) {
	e.mu.Lock()
	first := e.err == nil
	if first {
		e.err = why
		close(e.over)
	}
	left := e.keep - time.Since(e.since)
	e.mu.Unlock()
	if !first {
		return
	}
	e.ps.mu.Lock()
	if e.ps.keeper == e {
		e.ps.keeper = nil
		if left > 0 {
			e.ps.kept = time.AfterFunc(left, e.ps.killAll)
		}
	}
	e.ps.mu.Unlock()
	if left <= 0 {
		e.ps.killAll()
	}
}

func (e *agentEnd) check(ctx context.Context) error {
	if err := e.Err(); err != nil {
		return fmt.Errorf("%w: %w", keeper.ErrDisconnected, err)
	}
	return ctx.Err()
}

func (e *agentEnd) Info() keeper.Info {
	return keeper.Info{Version: keeper.ProtocolVersion, WorkerID: e.worker, Proc: keeper.Proc{PID: 1, BootID: e.ps.host}, MemoryLimitsWhy: "processes are pretended"}
}

func (e *agentEnd) Events() <-chan keeper.Event { return e.events }

func (e *agentEnd) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *agentEnd) Start(ctx context.Context, req keeper.StartRequest) (keeper.Started, error) {
	if err := e.check(ctx); err != nil {
		return keeper.Started{}, err
	}
	return e.ps.start(req)
}

func (e *agentEnd) Kill(ctx context.Context, key string, grace time.Duration) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	e.ps.mu.Lock()
	defer e.ps.mu.Unlock()
	p := e.ps.all[key]
	switch {
	case p == nil:
		return &keeper.Error{Reason: keeper.ReasonUnknownKey, Detail: key}
	case p.entry.State == keeper.StateExited:
		return &keeper.Error{Reason: keeper.ReasonNotRunning, Detail: key}
	}
	p.signal(syscall.SIGTERM)
	go func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.gone:
			return
		}
		e.ps.mu.Lock()
		p.signal(syscall.SIGKILL)
		e.ps.mu.Unlock()
		t.Reset(keeper.DefaultStuckAfter)
		select {
		case <-t.C:
			e.ps.outlived(p)
		case <-p.gone:
		}
	}()
	return nil
}

func (e *agentEnd) List(ctx context.Context) ([]keeper.Entry, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	e.ps.mu.Lock()
	defer e.ps.mu.Unlock()
	var out []keeper.Entry
	for _, key := range slices.Sorted(maps.Keys(e.ps.all)) {
		out = append(out, e.ps.all[key].entry)
	}
	return out, nil
}

func (e *agentEnd) Forget(ctx context.Context, key string) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	e.ps.mu.Lock()
	defer e.ps.mu.Unlock()
	p := e.ps.all[key]
	switch {
	case p == nil:
		return &keeper.Error{Reason: keeper.ReasonUnknownKey, Detail: key}
	case p.entry.State != keeper.StateExited:
		return &keeper.Error{Reason: keeper.ReasonStillRunning, Detail: key}
	}
	delete(e.ps.all, key)
	return nil
}

func (e *agentEnd) Keep(ctx context.Context, d time.Duration) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep, e.since = d, time.Now()
	return nil
}

func (e *agentEnd) Lease(ctx context.Context, l keeper.Lease) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	e.ps.renew(l)
	return nil
}

func (e *agentEnd) Shutdown(ctx context.Context, _ time.Duration) error {
	e.mu.Lock()
	e.keep = 0
	e.mu.Unlock()
	e.lose(errors.New("shut down"))
	e.ps.mu.Lock()
	var left []*pretended
	for _, p := range e.ps.all {
		left = append(left, p)
	}
	e.ps.mu.Unlock()
	for _, p := range left {
		select {
		case <-p.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (e *agentEnd) Close() error {
	e.lose(errors.New("closed"))
	return nil
}
