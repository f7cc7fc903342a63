//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/unixsocket"
)

// Config describes a keeper.
type Config struct {
	// StateDir holds socket, lock and the file of exits. It is created with mode 0700 if need be.
	StateDir string
	// WorkerID is the worker all children belong to.
	WorkerID string
	Logger   hclog.Logger
	// LogBytes is the size at which keeper.log in StateDir is rotated, if it is the output of this
	// process; zero means DefaultLogBytes.
	LogBytes int64

	// Times; zero means the default of the same name.
	StuckAfter   time.Duration
	OutputWait   time.Duration
	FirstContact time.Duration
	StopGrace    time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if !filepath.IsAbs(c.StateDir) {
		return c, fmt.Errorf("keeper: state directory %q is not absolute", c.StateDir)
	}
	if c.WorkerID == "" {
		return c, errors.New("keeper: no worker id")
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.LogBytes < 0 {
		return c, fmt.Errorf("keeper: negative size of the log %d", c.LogBytes)
	}
	if c.LogBytes == 0 {
		c.LogBytes = DefaultLogBytes
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&c.StuckAfter, DefaultStuckAfter},
		{&c.OutputWait, DefaultOutputWait},
		{&c.FirstContact, DefaultFirstContact},
		{&c.StopGrace, DefaultStopGrace},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("keeper: negative time %v", *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	return c, nil
}

// Main is the whole keeper process: it runs until the agent ends it, the agent goes without a Keep,
// or ctx is cancelled, and leaves no child behind. Every way that was asked for returns nil.
func Main(ctx context.Context, cfg Config) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Server is the keeper's side of the socket and the owner of all children.
//
// mu guards everything below it and is never held across a system call that may block. reapMu makes
// a spawn and the note of its process id one step as seen by the reaper; it is taken before mu.
type Server struct {
	cfg     Config
	log     hclog.Logger
	exits   *exitStore
	scans   *shared[[]procStat]
	cgroup  *cgroupTree // nil when memory limits are not enforced
	info    Info
	devNil  *os.File
	buffers sync.Pool // of *[copyBufferBytes]byte, for output
	// spawn is the spawner's; a fuzz target puts one here that starts nothing.
	spawn      func(spawnSpec) (int, error)
	runSpawner func(stop <-chan struct{})

	// childLists says that this kernel has lists of children. It is set before anything is spawned.
	childLists bool
	children   childLister   // of the keeper; with reapMu held
	strays     *shared[bool] // strayChildren

	reapMu sync.Mutex
	logMu  sync.Mutex // one rotation of the log at a time

	mu      sync.Mutex
	entries map[string]*entry
	byPID   map[int]*entry      // direct children that are not reaped
	byID    map[identity]*entry // that have not exited
	owned   map[procID]*entry
	reaped  chan struct{} // closed and replaced when a child was reaped
	closing bool
	agent   *agentConn
	keepTo  time.Time // zero without a Keep
	lease   Lease     // zero before the first
	idle    *time.Timer
	conns   map[*agentConn]struct{}

	leaseNews chan struct{} // capacity 1: lease or leased processes have changed

	active sync.WaitGroup // entries that are not exited; no Add once closing is set
	end    chan ending
}

// ending says why Run shall end.
type ending struct {
	why   string
	grace time.Duration
	err   error
}

// New returns a server for cfg. It touches nothing outside the process.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	sp := newSpawner()
	s := newServer(cfg, sp.spawn)
	s.runSpawner = sp.run
	return s, nil
}

func newServer(cfg Config, spawn func(spawnSpec) (int, error)) *Server {
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		exits:   newExitStore(filepath.Join(cfg.StateDir, exitLogName)),
		scans:   newShared(scanProcs),
		spawn:   spawn,
		entries: make(map[string]*entry),
		byPID:   make(map[int]*entry),
		byID:    make(map[identity]*entry),
		owned:   make(map[procID]*entry),
		reaped:  make(chan struct{}),
		conns:   make(map[*agentConn]struct{}),
		end:     make(chan ending, 1),

		leaseNews: make(chan struct{}, 1),
	}
	s.strays = newShared(func() (bool, error) {
		s.reapMu.Lock()
		defer s.reapMu.Unlock()
		return s.strayChildren()
	})
	return s
}

// SocketPath returns the path of the socket of the keeper with that state directory.
func SocketPath(stateDir string) string { return filepath.Join(stateDir, "keeper.sock") }

// Run serves until there is a reason to end, then ends every child and returns. It changes the
// process it runs in (child subreaper, SIGCHLD, waiting for any child), so it belongs into a
// process of its own, and is called once.
func (s *Server) Run(ctx context.Context) error {
	lock, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	defer func() { _ = s.devNil.Close() }()
	defer func() {
		if err := s.exits.close(); err != nil {
			s.log.Error("exits are not on disk", "err", err)
		}
	}()
	listener, err := unixsocket.Listen(SocketPath(s.cfg.StateDir))
	if err != nil {
		return err
	}
	s.log.Info("keeper started", "worker", s.cfg.WorkerID, "pid", s.info.Proc.PID, "entries", len(s.entries),
		"memory_limits", s.info.MemoryLimits, "why", s.info.MemoryLimitsWhy)
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { s.runSpawner(stop) })
	background.Go(func() { s.reap(stop) })
	background.Go(func() { s.sweep(stop) })
	background.Go(func() { s.enforceLease(stop) })
	var accepting sync.WaitGroup
	accepting.Go(func() { s.accept(listener) })
	s.mu.Lock()
	s.armIdle(s.cfg.FirstContact, "the agent never came")
	s.mu.Unlock()

	cause := s.waitForEnd(ctx)
	s.log.Info("keeper ends", "worker", s.cfg.WorkerID, "why", cause.why, "grace", cause.grace)
	s.endChildren(cause.grace)
	// The socket goes before the connection: whoever sees the connection end may start a successor.
	_ = os.Remove(SocketPath(s.cfg.StateDir))
	_ = listener.Close()
	accepting.Wait()
	close(stop)
	background.Wait()
	return cause.err
}

// prepare takes the state directory and reads it, and sets up the process.
func (s *Server) prepare(ctx context.Context) (lock *os.File, err error) {
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("create keeper state directory: %w", err)
	}
	if err := os.Chmod(s.cfg.StateDir, 0o700); err != nil { //nolint:gosec // a directory needs the x bit
		return nil, fmt.Errorf("protect keeper state directory: %w", err)
	}
	lock, err = lockDir(ctx, s.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	self, err := readStat(os.Getpid())
	if err != nil {
		return nil, err
	}
	s.info = Info{
		Version: ProtocolVersion, WorkerID: s.cfg.WorkerID,
		Proc: Proc{PID: self.pid, StartTicks: self.start, BootID: boot},
	}
	if err := s.loadExits(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become child subreaper: %w", err)
	}
	s.setUpCgroups()
	s.childLists = childListsHere()
	s.devNil, err = os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open input of children: %w", err)
	}
	return lock, nil
}

func (s *Server) loadExits() error {
	exited, note, err := s.exits.load()
	if err != nil {
		return err
	}
	if note != "" {
		s.log.Warn("file of exits", "note", note)
	}
	for _, e := range exited {
		s.entries[e.Key] = loadedEntry(e)
	}
	return nil
}

func (s *Server) setUpCgroups() {
	ok, why := CgroupSupport()
	if ok {
		own, err := ownCgroup("/proc/self/cgroup")
		if err == nil {
			s.cgroup, err = prepareCgroups(delegatedBase(filepath.Join(cgroupMount, own)), s.cfg.WorkerID)
		}
		if err != nil {
			ok, why = false, err.Error()
		}
	}
	s.info.MemoryLimits, s.info.MemoryLimitsWhy = ok, why
}

func (s *Server) waitForEnd(ctx context.Context) ending {
	select {
	case <-ctx.Done():
		return ending{why: "asked to stop by a signal", grace: s.cfg.StopGrace}
	case cause := <-s.end:
		return cause
	}
}

// finish makes Run end for that cause; the first one counts.
func (s *Server) finish(cause ending) {
	select {
	case s.end <- cause:
	default:
	}
}

// armIdle ends the keeper after d unless an agent attaches before; mu is held.
func (s *Server) armIdle(d time.Duration, why string) {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		current := s.idle == timer
		s.mu.Unlock()
		if current {
			s.finish(ending{why: why, err: fmt.Errorf("%w: %s", ErrNoAgent, why)})
		}
	})
	s.idle = timer
}

// disarmIdle undoes armIdle; mu is held.
func (s *Server) disarmIdle() {
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

// endChildren refuses new processes, ends those there are, and returns when nothing that descends
// from the keeper is left, or when what is left cannot be killed.
func (s *Server) endChildren(grace time.Duration) {
	s.mu.Lock()
	s.closing = true
	all := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	s.disarmIdle()
	s.mu.Unlock()
	deadline := time.Now().Add(grace)
	for _, e := range all {
		s.requestKill(e, deadline, true)
	}
	gone := make(chan struct{})
	go func() {
		s.active.Wait()
		close(gone)
	}()
	bound := time.NewTimer(grace + s.cfg.StuckAfter + s.cfg.OutputWait)
	defer bound.Stop()
	select {
	case <-gone:
	case <-bound.C:
		s.log.Warn("some processes cannot be killed", "worker", s.cfg.WorkerID)
	}
	s.killDescendants()
}

// killDescendants ends whatever is left below the keeper, whoever it belongs to.
func (s *Server) killDescendants() {
	until := time.Now().Add(finalKillBound)
	for poll := firstMemberPoll; time.Now().Before(until); poll = nextPoll(poll) {
		left, err := s.descendants()
		if err != nil || len(left) == 0 {
			return
		}
		for _, p := range left {
			_ = signalProc(p.procID, unix.SIGKILL) // gone, or tried again in the next round
		}
		s.awaitReaped(poll)
	}
}

// awaitReaped returns after d, or sooner if a child was reaped.
func (s *Server) awaitReaped(d time.Duration) {
	s.mu.Lock()
	reaped := s.reaped
	s.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-reaped:
	case <-t.C:
	}
}

func nextPoll(d time.Duration) time.Duration { return min(2*d, lastMemberPoll) }

func (s *Server) accept(l net.Listener) {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			s.closeConns()
			return
		}
		if err != nil { // out of descriptors, most likely; the agent will try again
			s.log.Warn("accept failed", "err", err)
			time.Sleep(acceptBackoff)
			continue
		}
		a := newAgentConn(c)
		if !s.admit(a) {
			_ = c.Close()
			continue
		}
		handlers.Go(func() { s.serveConn(a) })
	}
}
