//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/internal/lifecycle"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Worker is one worker. Life: New, Run once. Its accessors are safe for concurrent use and valid
// once Ready is closed.
type Worker struct {
	cfg   Config
	deps  Deps
	log   hclog.Logger
	ready chan struct{}

	mu    sync.Mutex
	id    model.WorkerID
	grpc  string
	serf  string
	http  string
	agent *agent
}

// New checks what it is given. It opens nothing.
func New(cfg Config, deps Deps) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err := errors.Join(err, deps.check()); err != nil {
		return nil, fmt.Errorf("configure worker: %w", err)
	}
	// Orders come from masters only, and reports go to masters only: certificates
	// of other workers and of clients are of the same authority.
	deps.ServerTLS, deps.ClientTLS = tlsconf.Only(deps.ServerTLS, tlsconf.RoleMaster), tlsconf.Only(deps.ClientTLS, tlsconf.RoleMaster)
	return &Worker{cfg: cfg, deps: deps, log: deps.Logger.Named("worker"), ready: make(chan struct{})}, nil
}

// Ready is closed once the worker listens and has its keeper. It has a leader when /readyz says so.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// ID is the worker's id.
func (w *Worker) ID() model.WorkerID { w.mu.Lock(); defer w.mu.Unlock(); return w.id }

// GRPCAddr is the advertised "host:port" of gRPC.
func (w *Worker) GRPCAddr() string { w.mu.Lock(); defer w.mu.Unlock(); return w.grpc }

// SerfAddr is the advertised "ip:port" of gossip.
func (w *Worker) SerfAddr() string { w.mu.Lock(); defer w.mu.Unlock(); return w.serf }

// HTTPAddr is the advertised "host:port" of the web server.
func (w *Worker) HTTPAddr() string { w.mu.Lock(); defer w.mu.Unlock(); return w.http }

// Status is what /json answers. It fails before Ready and once the worker has ended.
func (w *Worker) Status(ctx context.Context) (Status, error) {
	w.mu.Lock()
	a := w.agent
	w.mu.Unlock()
	if a == nil {
		return Status{}, errors.New("the worker has not started yet")
	}
	return a.status(ctx)
}

// parts is what the steps of a start put together.
type parts struct {
	id       *identity
	ports    ports // of the last start, if this one was planned
	control  net.Listener
	fence    *fence
	journal  openedJournal
	masters  *masterList
	dir      *workDir
	programs *programCache
	keepers  *keepers
	grpcL    net.Listener
	httpL    net.Listener
	gossip   *gossip.Gossip
	offer    model.Offer
	agent    *agent
	sessions *sessions
	members  *membership
	cleaner  *cleaner
	server   *rpc.Server
	web      *server

	controller *controller
}

// step is one step of a start; undo releases what do has taken and may be nil.
type step struct {
	name string
	do   func(ctx context.Context, p *parts) error
	undo func(p *parts) error
}

// steps in order. What is undone is undone in reverse.
func (w *Worker) steps() []step {
	return []step{
		{"identity", w.openIdentity, func(p *parts) error { return p.id.close() }},
		{"control socket", w.openControl, func(p *parts) error { return closeControl(p.control, w.cfg.DataDir) }},
		{"fence", w.openFence, nil},
		{"journal", w.openJournal, func(p *parts) error { return p.journal.journal.close() }},
		{"work directory", w.openWorkDir, func(p *parts) error { return p.dir.close() }},
		{"gRPC listener", w.listenGRPC, func(p *parts) error { return closed(p.grpcL.Close()) }},
		{"HTTP listener", w.listenHTTP, func(p *parts) error { return closed(p.httpL.Close()) }},
		{"gossip", w.startGossip, func(p *parts) error { return p.gossip.Close() }},
		{"offer", w.makeOffer, nil},
		{"programs", w.openPrograms, func(p *parts) error { p.programs.close(); return nil }},
		{"keeper", w.startKeeper, func(p *parts) error { return p.keepers.close() }},
	}
}

func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Run starts the worker and blocks until it has ended. When ctx ends it stops gracefully: its
// executors get SIGTERM and StopGrace, their ends are reported, the leader commits that it has left,
// all within StopBound; then gossip, servers and keeper end.
func (w *Worker) Run(ctx context.Context) (err error) {
	var p parts
	var taken []step
	defer func() {
		for _, s := range slices.Backward(taken) {
			if undoErr := s.undo(&p); undoErr != nil {
				err = errors.Join(err, fmt.Errorf("stop worker: %s: %w", s.name, undoErr))
			}
		}
	}()
	for _, s := range w.steps() {
		if err := s.do(ctx, &p); err != nil {
			if ctx.Err() != nil {
				w.log.Info("told to stop while starting", "step", s.name, "err", err)
				return nil
			}
			return fmt.Errorf("start worker: %s: %w", s.name, err)
		}
		if s.undo != nil {
			taken = append(taken, s)
		}
	}
	w.assemble(&p)
	w.announce(&p)
	group := lifecycle.New(StopBound + keeperCallTimeout)
	group.Add("control socket", p.controller.run, nil)
	group.Add("web server", func(ctx context.Context) error { return p.web.run(ctx, p.httpL) }, nil)
	group.Add("gRPC server", p.server.Run, nil)
	group.Add("gossip", p.members.run, nil)
	group.Add("cleaner", p.cleaner.run, nil)
	if w.deps.Network == nil { // else the machine is pretended
		group.Add("host memory", w.hostMemory(&p).run, nil)
	}
	// Last, so that it stops first: it says goodbye while everything else still works.
	group.Add("agent", func(ctx context.Context) error { return p.agent.run(ctx, p.sessions.run) }, nil)
	err = group.Run(ctx)
	if p.agent.over {
		if portsErr := rememberPorts(w.cfg.DataDir, w.grpc, w.serf, w.http); portsErr != nil {
			w.log.Warn("ports not remembered for the next start", "err", portsErr)
		}
	}
	return err
}

func (w *Worker) openIdentity(_ context.Context, p *parts) (err error) {
	p.id, err = openIdentity(w.cfg.DataDir, time.Now())
	if err != nil {
		return err
	}
	w.log = w.log.With("worker", p.id.id)
	if os.Geteuid() == 0 {
		w.log.Warn("running as root: so will every executor")
	}
	if p.ports, err = takePorts(w.cfg.DataDir); err != nil {
		w.log.Warn("ports of the last start not known", "err", err)
	}
	return nil
}

func (w *Worker) openFence(_ context.Context, p *parts) (err error) {
	if p.fence, err = openFence(filepath.Join(w.cfg.DataDir, fenceFile), w.log); err != nil {
		return err
	}
	p.masters, err = openMasters(filepath.Join(w.cfg.DataDir, "masters.json"), w.cfg.Masters)
	return err
}

func (w *Worker) openJournal(_ context.Context, p *parts) (err error) {
	p.journal, err = openJournal(filepath.Join(w.cfg.DataDir, "journal"))
	if p.journal.note != "" {
		w.log.Warn(p.journal.note)
	}
	return err
}

func (w *Worker) openWorkDir(_ context.Context, p *parts) (err error) {
	p.dir, err = openWorkDir(w.cfg.WorkDir)
	return err
}

func (w *Worker) listenGRPC(ctx context.Context, p *parts) (err error) {
	p.grpcL, err = w.listen(ctx, w.cfg.GRPCPort, p.ports.GRPC)
	return err
}

func (w *Worker) listenHTTP(ctx context.Context, p *parts) (err error) {
	p.httpL, err = w.listen(ctx, w.cfg.HTTPPort, p.ports.HTTP)
	return err
}

// listen listens on port; if that is 0, on the port of the last start if it is still free.
func (w *Worker) listen(ctx context.Context, port, last int) (net.Listener, error) {
	if port == 0 && last != 0 {
		if l, err := w.listen(ctx, last, 0); err == nil {
			return l, nil
		}
	}
	addr := net.JoinHostPort(w.cfg.Bind, strconv.Itoa(port))
	if w.deps.Network != nil {
		return w.deps.Network.Listen(addr)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

func (w *Worker) advertised(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // the address of a TCP listener has a port
	return net.JoinHostPort(w.cfg.Advertise, port)
}

func (w *Worker) tags(p *parts) gossip.Tags {
	return gossip.Tags{
		Role: gossip.RoleWorker, ID: string(p.id.id), Cluster: p.fence.cluster, Incarnation: p.id.incarnation,
		GRPCAddr: w.advertised(p.grpcL), HTTPAddr: w.advertised(p.httpL), Version: w.cfg.Version,
	}
}

// keyringFile keeps the keys of gossip as they were exchanged.
const keyringFile = "gossip-keyring.json"

func (w *Worker) startGossip(_ context.Context, p *parts) (err error) {
	if w.cfg.SerfPort == 0 && p.ports.Serf != 0 && w.gossipOn(p, p.ports.Serf) == nil { //nolint:contextcheck // gossip lives until its Close
		return nil
	}
	return w.gossipOn(p, w.cfg.SerfPort) //nolint:contextcheck // gossip lives until its Close
}

func (w *Worker) gossipOn(p *parts, port int) (err error) {
	p.gossip, err = gossip.New(gossip.Config{
		NodeID: string(p.id.id), BindHost: w.cfg.Bind, BindPort: port, AdvertiseHost: w.cfg.Advertise,
		Tags: w.tags(p), Join: w.cfg.Join, Keys: w.deps.GossipKeys, KeyringFile: filepath.Join(w.cfg.DataDir, keyringFile), Logger: w.log.Named("gossip"), Transport: w.deps.Network,
	})
	if err != nil {
		return err
	}
	return p.gossip.Start()
}

func (w *Worker) makeOffer(ctx context.Context, p *parts) error {
	host := thisHost()
	cores := host.cores(w.cfg.Cores)
	memory, err := host.memoryMiB(w.cfg.MemoryMiB)
	if err != nil {
		return err
	}
	w.log.Info("offering cores", "cores", cores.value, "origin", cores.origin)
	w.log.Info("offering memory", "memory_mib", memory.value, "origin", memory.origin)
	resources, err := discover(ctx, w.cfg.Resources, w.cfg.Discovery, w.deps.Environ)
	if err != nil {
		return err
	}
	for name, addrs := range resources {
		origin := "as configured"
		if script, found := w.cfg.Discovery[name]; found {
			origin = "found by " + script
		}
		w.log.Info("offering resource", "resource", name, "addresses", addrs, "origin", origin)
	}
	total, err := host.totalMemory()
	if err != nil {
		w.log.Warn("the machine's memory is not shown", "err", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		hostname = w.cfg.Advertise
	}
	p.offer = model.Offer{
		Hostname: hostname,
		GRPCAddr: w.advertised(p.grpcL), SerfAddr: p.gossip.AdvertiseAddr(), HTTPAddr: w.advertised(p.httpL),
		Cores: int(cores.value), MemoryMiB: memory.value,
		Resources: resources, Labels: w.cfg.Labels, Version: w.cfg.Version,
		CoresTotal: int(host.cores(0).value), MemoryTotalMiB: total.value,
	}
	return nil
}

func (w *Worker) openPrograms(_ context.Context, p *parts) (err error) {
	p.programs, err = openProgramCache(filepath.Join(p.dir.path, programsDir), w.cfg.ProgramCacheBytes, w.log.Named("programs"), driverSource(w.dialer()))
	if err == nil && w.deps.Network != nil {
		p.programs.reachBy(w.deps.Network.Dial)
	}
	return err
}

// startKeeper rebuilds the table from the journal and brings it into line with what runs.
func (w *Worker) startKeeper(ctx context.Context, p *parts) error {
	open := w.deps.Runner
	if open == nil {
		var err error
		if open, err = keeperOpener(w.log, w.deps.KeeperExe, w.cfg.DataDir); err != nil {
			return err
		}
	}
	keepers := newKeepers(w.log, open, string(p.id.id))
	p.keepers = keepers
	cleanup := make(chan model.AppID, maxDownQueue)
	reports := newReports(p.id.incarnation)
	drivers, err := newDriverTLS(w.deps)
	if err != nil {
		return err
	}
	a := &agent{
		log: w.log, id: p.id, offer: p.offer, fence: p.fence, reports: reports, journal: p.journal.journal,
		table: newTable(w.log, p.journal.journal, reports), dir: p.dir, masters: p.masters, keepers: keepers,
		contact: newContact(w.deps.SinceBoot),
		launcher: &launcher{
			worker: p.id.id, dir: p.dir, executor: slices.Clone(w.deps.ExecutorExe), environ: w.deps.Environ,
			logURL: w.webURL(p), drivers: drivers,
		},
		programs: p.programs,
		metrics:  newMetrics(w.cfg.Version, w.deps.Certificate),
		cleanup:  cleanup,
		calls:    make(chan func()),
		orders:   make(chan model.WorkerDown, maxDownQueue),
		done:     make(chan struct{}),
		slots:    make(chan struct{}, maxStartsInFlight),
	}
	if w.cfg.Advertise != w.cfg.Bind {
		a.launcher.bind, a.launcher.advertise = w.cfg.Bind, w.cfg.Advertise
	}
	a.table.restore(p.journal.records)
	entries, err := keepers.connect(ctx, a.table.processes())
	if err != nil {
		return err
	}
	before := a.table.live()
	for _, e := range entries { // those that ended meanwhile
		if ref, err := model.ParseExecutorRef(e.Key); err == nil && e.Exit != nil && failedBy(*e.Exit) {
			a.failed(ref)
		}
	}
	a.adopted = a.table.attach(entries, time.Now())
	a.heritage = Heritage{Adopted: a.table.live(), Ended: before - a.table.live()}
	if before > 0 {
		w.log.Info("executors of the last start", "adopted", a.heritage.Adopted, "ended_meanwhile", a.heritage.Ended)
	}
	p.agent = a
	p.cleaner = &cleaner{dir: p.dir, log: w.log, clean: cleanup, owner: a, report: a.metrics.cleaned, keep: retention{apps: MaxKeptApps, age: MaxKeptAge, budget: w.cfg.WorkBudgetBytes}}
	return nil
}

// dialer is what reaches masters; nil means TCP.
func (w *Worker) dialer() rpc.DialFunc {
	if w.deps.Dial == nil && w.deps.Network != nil {
		return w.deps.Network.Dial
	}
	return w.deps.Dial
}

func (w *Worker) webURL(p *parts) string {
	scheme := "http://"
	if w.deps.HTTPTLS != nil {
		scheme = "https://"
	}
	return scheme + w.advertised(p.httpL)
}

// assemble ties together what the steps have opened. It cannot fail.
func (w *Worker) assemble(p *parts) {
	finder := client.NewLeaderFinder(w.cfg.Masters, nil)
	finder.AddSeeds(p.masters.list())
	dial := rpc.DialConfig{TLS: w.deps.ClientTLS, Dial: w.dialer(), Principal: string(p.id.id)}
	p.sessions = newSessions(w.log, finder, dialOpener(dial), p.agent, p.agent.contact)
	p.sessions.identify = identifier(dial)
	p.members = newMembership(w.log, p.gossip, finder, p.sessions.suspect,
		func() bool { return p.agent.over }, w.tags(p))
	p.agent.changed = p.members.changed
	p.agent.meet = p.members.gossip.AddSeeds
	p.agent.anew = p.sessions.anew
	logs := newLogReader(p.dir, p.agent.alive)
	p.server = rpc.NewServer(rpc.ServerConfig{Listener: p.grpcL, TLS: w.deps.ServerTLS, Logger: w.log.Named("rpc"), Observe: p.agent.metrics.rpc.Observe},
		rpc.Services{Worker: &service{agent: p.agent, logs: logs}})
	p.controller = &controller{log: w.log.Named("control"), listener: p.control, agent: p.agent, check: w.deps.CheckSuccessor}
	p.agent.metrics.watch(w.log, p.agent)
	p.web = newWeb(w.log.Named("web"), p.agent, logs, w.deps.HTTPTLS, w.cfg)
}

func (w *Worker) announce(p *parts) {
	w.mu.Lock()
	w.id, w.grpc, w.serf, w.http = p.id.id, p.offer.GRPCAddr, p.offer.SerfAddr, p.offer.HTTPAddr
	w.agent = p.agent
	w.mu.Unlock()
	w.log.Info("worker started", "incarnation", p.id.incarnation, "grpc", w.grpc, "serf", w.serf, "http", w.http,
		"work_dir", p.dir.path)
	close(w.ready)
}

func (w *Worker) hostMemory(p *parts) *hostMemory {
	return &hostMemory{
		log: w.log, host: thisHost(), total: p.offer.MemoryTotalMiB, offered: p.offer.MemoryMiB,
		granted: p.agent.grantedMemory, tell: p.members.uses,
	}
}
