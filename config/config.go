package config

import (
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hearthd/hearth/model"
)

// Default ports (design, section 3). Zero anywhere means: the kernel chooses.
const (
	DefaultMasterGRPCPort = 7070
	DefaultRaftPort       = 7071
	DefaultMasterSerfPort = 7072
	DefaultMasterHTTPPort = 8080
	DefaultWorkerGRPCPort = 7073
	DefaultWorkerSerfPort = 7074
	DefaultWorkerHTTPPort = 8081
)

// Raft timing presets; see Raft.ElectionTimeout.
const (
	PresetLAN  = "lan"
	PresetFast = "fast"
	PresetWAN  = "wan"
	PresetRig  = "rig"
)

// Log stores of Raft.
const (
	LogStoreWAL    = "wal"
	LogStoreBoltDB = "boltdb"
)

// MasterConfig is everything `hearth master` can be told.
type MasterConfig struct {
	// DataDir holds identity, Raft log, stable store and snapshots. LoadMaster
	// makes it absolute.
	DataDir   string
	Network   MasterNetwork
	Cluster   model.Settings // seeds, used when a cluster is bootstrapped
	Raft      Raft
	Gossip    Gossip
	TLS       TLS
	HTTP      HTTP
	Access    Access
	Scheduler Scheduler
	Log       Log
}

// WorkerConfig is everything `hearth worker` can be told.
type WorkerConfig struct {
	// DataDir holds identity, fences and the journal. LoadWorker makes it
	// absolute.
	DataDir string
	Network Network
	Gossip  Gossip
	TLS     TLS
	HTTP    HTTP
	Worker  Worker
	Log     Log
}

// ClientConfig is what a command that talks to a cluster can be told.
type ClientConfig struct {
	// Masters are gRPC addresses "host:port"; any subset of the masters will do.
	Masters []string
	TLS     TLS
	// TokenFile holds the token of whoever runs the command; empty: none. See
	// ReadToken.
	TokenFile string
}

// Network says where a daemon listens and how others reach it.
type Network struct {
	// Bind is the IP address or name listened on.
	Bind string
	// Advertise is the host others dial, without a port; empty means Bind.
	Advertise string
	// AllowInsecure lets a daemon listen beyond loopback without TLS.
	AllowInsecure bool
	GRPCPort      int
	SerfPort      int
	HTTPPort      int // /healthz and /readyz
}

// MasterNetwork is Network with what only masters have.
type MasterNetwork struct {
	Network
	RaftPort int
}

// BindAddress returns "host:port" to listen on. IPv6 literals get brackets.
func (n Network) BindAddress(port int) string {
	return net.JoinHostPort(n.Bind, strconv.Itoa(port))
}

// AdvertiseHost returns the host that others dial: Advertise, or else Bind.
func (n Network) AdvertiseHost() string {
	if n.Advertise != "" {
		return n.Advertise
	}
	return n.Bind
}

// AdvertiseAddress returns "host:port" for others to dial; port is the one
// really listened on, which differs from the configured one when that is 0.
func (n Network) AdvertiseAddress(port int) string {
	return net.JoinHostPort(n.AdvertiseHost(), strconv.Itoa(port))
}

// Raft configures the replicated log of a master.
type Raft struct {
	// BootstrapExpect is how many masters found the cluster together.
	BootstrapExpect int
	// Preset is one of the Preset constants.
	Preset string
	// LogStore is one of the LogStore constants.
	LogStore string
	// SnapshotThreshold is how many entries may follow a snapshot before the
	// next one is taken.
	SnapshotThreshold int
	// SnapshotInterval is how often the threshold is looked at.
	SnapshotInterval time.Duration
}

// ElectionTimeout is the heartbeat and election timeout of the preset, zero for
// an unknown one (design, section 6).
func (r Raft) ElectionTimeout() time.Duration {
	switch r.Preset {
	case PresetLAN:
		return 300 * time.Millisecond
	case PresetFast:
		return 50 * time.Millisecond
	case PresetWAN:
		return 2 * time.Second
	case PresetRig:
		return time.Second
	default:
		return 0
	}
}

// Gossip configures membership.
type Gossip struct {
	// Join are Serf addresses "host:port" to start from.
	Join []string
	// KeyFile holds the keys of gossip in base64, one a line, the first one encrypts; empty means
	// gossip.key of TLS.Dir, or no encryption without that. See GossipKeyFile.
	KeyFile string
}

// ClientAuth values: who may see what a daemon serves by HTTP.
const (
	ClientAuthRequire  = "require"
	ClientAuthOptional = "optional"
)

// HTTP configures a daemon's web server.
type HTTP struct {
	// ClientAuth is one of the ClientAuth constants. Without TLS it means nothing.
	ClientAuth string
}

// Tokens values: what people need to call a cluster.
const (
	TokensOptional = "optional"
	TokensRequired = "required"
)

// Access says what people need to call a cluster.
type Access struct {
	// Tokens is one of the Tokens constants. Required: a client's certificate, or
	// being on the machine of a cluster without TLS, is not enough.
	Tokens string
}

// Files of TLS.Dir, as hearth ca issue writes them.
const (
	tlsCAName     = "ca.pem"
	tlsCertName   = "cert.pem"
	tlsKeyName    = "key.pem"
	gossipKeyName = "gossip.key"
)

// TLS names the files of mutual TLS: a directory, all three files, or none for
// plain connections. A file that is named counts instead of the one in the
// directory.
type TLS struct {
	// Dir holds ca.pem, cert.pem, key.pem and, for daemons, gossip.key.
	Dir      string
	CAFile   string
	CertFile string
	KeyFile  string
}

// Enabled reports whether TLS is wanted.
func (t TLS) Enabled() bool { return t != TLS{} }

// Paths are the three files after Dir was taken into account, empty without TLS.
func (t TLS) Paths() (ca, cert, key string) {
	return t.path(t.CAFile, tlsCAName), t.path(t.CertFile, tlsCertName), t.path(t.KeyFile, tlsKeyName)
}

func (t TLS) path(file, name string) string {
	if file == "" && t.Dir != "" {
		return filepath.Join(t.Dir, name)
	}
	return file
}

// GossipKeyFile is the file with the keys of gossip, empty for none.
func (c MasterConfig) GossipKeyFile() string { return c.TLS.path(c.Gossip.KeyFile, gossipKeyName) }

// GossipKeyFile is the file with the keys of gossip, empty for none.
func (c WorkerConfig) GossipKeyFile() string { return c.TLS.path(c.Gossip.KeyFile, gossipKeyName) }

// Scheduler holds the timeouts by which a master judges silence. Workers and
// drivers learn theirs from it.
type Scheduler struct {
	// WorkerBeat is the interval of beats on a worker's session.
	WorkerBeat time.Duration
	// WorkerTimeout is the silence after which a worker is dead.
	WorkerTimeout time.Duration
	// DriverTimeout is the silence after which a driver's app ends.
	DriverTimeout time.Duration
}

// Worker says what a worker offers and where it finds its masters.
type Worker struct {
	// Masters are gRPC addresses "host:port".
	Masters []string
	// Cores offered; 0 means all that the machine (or cgroup) gives.
	Cores int
	// MemoryMiB offered; 0 means the machine's (or cgroup's) less 1 GiB, at least
	// half.
	MemoryMiB int64
	// Resources are named resources with their addresses.
	Resources model.Resources
	// Discovery maps names of resources to scripts, absolute paths, that find
	// their addresses when the worker starts.
	Discovery map[string]string
	// Labels are free key-value pairs shown with the worker. Applications can
	// require or prefer them.
	Labels map[string]string
	// WorkDir holds the directories of executors; LoadWorker fills it in.
	WorkDir string
	// WorkBudgetMiB is how large the work directory may be before directories of
	// ended applications are removed, the oldest first; 0 = no limit.
	WorkBudgetMiB int64
	// ProgramCacheMiB is how much disk fetched programs and artifacts may take;
	// 0 means DefaultProgramCacheMiB.
	ProgramCacheMiB int64
}

// Defaults of the disk that a worker uses.
const (
	DefaultWorkBudgetMiB   = 20 << 10
	DefaultProgramCacheMiB = 4 << 10
)

// Log configures the daemon's own log.
type Log struct {
	Level  string // trace, debug, info, warn or error
	Format string // one of the LogFormat constants
}

// LogFormat values: how a daemon writes its log to standard error.
const (
	LogFormatText = "text"
	LogFormatJSON = "json" // one object a line
)

// DefaultMaster returns the defaults of `hearth master`: a single master on
// loopback.
func DefaultMaster() MasterConfig {
	return MasterConfig{
		DataDir: filepath.Join("hearth-data", "master"),
		Network: MasterNetwork{
			Network: Network{
				Bind:     "127.0.0.1",
				GRPCPort: DefaultMasterGRPCPort,
				SerfPort: DefaultMasterSerfPort,
				HTTPPort: DefaultMasterHTTPPort,
			},
			RaftPort: DefaultRaftPort,
		},
		Cluster: model.DefaultSettings(),
		Raft: Raft{
			BootstrapExpect:   1,
			Preset:            PresetLAN,
			LogStore:          LogStoreWAL,
			SnapshotThreshold: 8192,
			SnapshotInterval:  2 * time.Minute,
		},
		HTTP:      HTTP{ClientAuth: ClientAuthRequire},
		Access:    Access{Tokens: TokensOptional},
		Scheduler: Scheduler{WorkerBeat: time.Second, WorkerTimeout: 10 * time.Second, DriverTimeout: 30 * time.Second},
		Log:       Log{Level: "info", Format: LogFormatText},
	}
}

// DefaultWorker returns the defaults of `hearth worker`: everything the machine
// has, offered to a master on loopback.
func DefaultWorker() WorkerConfig {
	return WorkerConfig{
		DataDir: filepath.Join("hearth-data", "worker"),
		Network: Network{
			Bind:     "127.0.0.1",
			GRPCPort: DefaultWorkerGRPCPort,
			SerfPort: DefaultWorkerSerfPort,
			HTTPPort: DefaultWorkerHTTPPort,
		},
		HTTP:   HTTP{ClientAuth: ClientAuthRequire},
		Worker: Worker{WorkBudgetMiB: DefaultWorkBudgetMiB, ProgramCacheMiB: DefaultProgramCacheMiB},
		Log:    Log{Level: "info", Format: LogFormatText},
	}
}

// DefaultClient returns the defaults of client commands: the master on loopback.
func DefaultClient() ClientConfig {
	return ClientConfig{Masters: []string{defaultMasterAddress()}}
}

func defaultMasterAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultMasterGRPCPort))
}
