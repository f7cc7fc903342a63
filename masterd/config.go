package masterd

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
)

// Config is what a master needs to know. Ports of 0 are chosen by the kernel.
type Config struct {
	DataDir   string
	Bind      string // host or address that the listeners bind
	Advertise string // host that others dial; "" = Bind
	GRPCPort  int
	RaftPort  int
	SerfPort  int
	HTTPPort  int
	Join      []string // host:port of Serf listeners
	// BootstrapExpect is how many masters found a cluster together.
	BootstrapExpect int

	RaftPreset        string // lan, fast, wan, rig
	LogStore          string // wal, boltdb
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration

	// Seeds are the settings of a new cluster; an existing one keeps its own.
	Seeds model.Settings

	WorkerBeat    time.Duration
	WorkerTimeout time.Duration
	DriverTimeout time.Duration

	// HTTPCertOptional shows the pages under TLS to browsers without a
	// certificate too.
	HTTPCertOptional bool

	// TokensRequired: a certificate, or being on this machine, is not enough for
	// people; they need a token (ADR 0028).
	TokensRequired bool

	Version string
}

// Deps are the things a master is handed.
type Deps struct {
	Logger hclog.Logger
	// ServerTLS and ClientTLS secure gRPC and Raft; nil = plain TCP.
	ServerTLS *tls.Config
	ClientTLS *tls.Config
	// GossipKeys encrypt gossip from the first start on; none means plain.
	GossipKeys [][]byte
	// Certificate tells from when until when the own certificate is valid, for
	// metrics; nil without TLS.
	Certificate func() (from, until time.Time)
	// Network is what the master listens and dials on; nil = the operating
	// system's. Tests hand in a simulated one.
	Network gossip.Transport
	// Wall is the machine's wall clock: it is shown to people and decides
	// nothing. nil = time.Now.
	Wall func() time.Time
	// Disk is called before each write of Raft's stores with what it is for; an
	// error of it is the store's. Tests make a disk slow, hanging or broken
	// with it. nil = nothing.
	Disk func(what string) error

	seams seams
}

// Limits of a master.
const (
	barrierTimeout    = 10 * time.Second
	transferTimeout   = 5 * time.Second
	proposeTimeout    = 10 * time.Second
	helloTimeout      = 10 * time.Second
	beliefInterval    = time.Second
	loopTick          = time.Second
	peerCallTimeout   = 5 * time.Second
	maxPeerConns      = 1024
	maxPlacementsPass = 4096 // of one scheduling pass
	maxPlacementsCmd  = 64   // in one command
	maxPlacementsSize = 128 << 10
	maxVerdictsCmd    = 1024 // expiries, or applications to settle, in one command
	orderResend       = model.PlacedResendMilli * time.Millisecond
	shutdownGrace     = 10 * time.Second
	shunAfterLoss     = 2 * time.Second // a worker that reports executors as lost
)

func (c Config) withDefaults() Config {
	if c.Bind == "" {
		c.Bind = "127.0.0.1"
	}
	if c.Advertise == "" {
		c.Advertise = c.Bind
	}
	if c.BootstrapExpect == 0 {
		c.BootstrapExpect = 1
	}
	if c.RaftPreset == "" {
		c.RaftPreset = "lan"
	}
	if c.LogStore == "" {
		c.LogStore = "wal"
	}
	if c.WorkerBeat == 0 {
		c.WorkerBeat = time.Second
	}
	if c.WorkerTimeout == 0 {
		c.WorkerTimeout = 10 * time.Second
	}
	if c.DriverTimeout == 0 {
		c.DriverTimeout = 30 * time.Second
	}
	if c.Seeds.Equal(model.Settings{}) {
		c.Seeds = model.DefaultSettings()
	}
	return c
}

// advertised joins the advertised host with the port a listener was given.
func (c Config) advertised(l net.Listener) string {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return l.Addr().String()
	}
	return net.JoinHostPort(c.Advertise, port)
}
