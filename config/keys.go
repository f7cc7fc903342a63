package config

import (
	"strings"
	"time"

	"github.com/hearthd/hearth/model"
)

// EnvPrefix begins every environment variable that is a setting: the section and
// the key follow in upper case, as in HEARTH_CONFIG_NETWORK_GRPC_PORT.
const EnvPrefix = "HEARTH_CONFIG_"

// EnvMasters names the masters for client commands, as a comma-separated list.
const EnvMasters = "HEARTH_MASTERS"

// EnvTokenFile names the file with the token of whoever runs a client command.
const EnvTokenFile = "HEARTH_TOKEN_FILE"

// EnvTLSDir names the directory with the certificate of client commands.
const EnvTLSDir = "HEARTH_TLS_DIR"

// What a worker with separate addresses to bind and to advertise tells its
// drivers in cluster mode: their executors come by the same way.
const (
	EnvDriverBind      = "HEARTH_DRIVER_BIND"
	EnvDriverAdvertise = "HEARTH_DRIVER_ADVERTISE"
)

// Bounds of durations: below, timers cost more than they tell; above, a typing
// error is likelier than intent.
const (
	minTimeout  = 100 * time.Millisecond
	maxTimeout  = time.Hour
	minBeat     = 10 * time.Millisecond
	maxBeat     = time.Minute
	maxInterval = 24 * time.Hour

	maxSnapshotThreshold = 1 << 30
	maxExpect            = 9 // voters beyond this slow every commit and help nobody
)

// key is one setting: where it is written and what it is bound to.
type key struct {
	section string // "" at the top level of the file
	name    string
	flag    string // "" when there is no flag
	usage   string
	env     string // a second environment variable, "" for none
	value   value
}

// field is the name in the file and in messages.
func (k key) field() string {
	if k.section == "" {
		return k.name
	}
	return k.section + "." + k.name
}

// envName is the variable that sets the key.
func (k key) envName() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.field(), ".", "_"))
}

// masterKeys binds every setting of a master to c.
func masterKeys(c *MasterConfig) []key {
	keys := []key{{name: "data_dir", flag: "data-dir", usage: "directory of identity, log and snapshots", value: stringValue(&c.DataDir)}}
	keys = append(keys, networkKeys(&c.Network.Network)...)
	keys = append(
		keys,
		key{section: "network", name: "raft_port", flag: "raft-port", usage: "port of Raft", value: portValue(&c.Network.RaftPort)},
		key{section: "cluster", name: "spread_out_apps", usage: "spread the executors of an app over workers instead of packing them", value: boolValue(&c.Cluster.SpreadOutApps)},
		key{section: "cluster", name: "worker_selection_policy", usage: "which of the fitting workers comes first", value: policyValue(&c.Cluster.WorkerSelectionPolicy)},
		key{section: "cluster", name: "default_cores", usage: "most cores of an app that sets no limit; 0 is no limit", value: intValue(&c.Cluster.DefaultCores, 0, model.MaxCores)},
		key{section: "cluster", name: "spread_out_drivers", usage: "go round the workers with drivers in cluster mode instead of packing them", value: boolValue(&c.Cluster.SpreadOutDrivers)},
		key{section: "cluster", name: "max_drivers", usage: "most drivers in cluster mode that are placed at once; 0 is no limit", value: intValue(&c.Cluster.MaxDrivers, 0, model.MaxDriversLimit)},
		key{section: "cluster", name: "driver_share", usage: "most of the cores of all workers that drivers hold, between 0 and 1; 0 is no limit", value: shareValue(&c.Cluster.DriverShareMilli)},
		key{section: "cluster", name: "queues", usage: "queues of apps, each a name and what differs from the default: name,weight=1,priority=0,cap_cores=0", value: queuesValue(&c.Cluster.Queues)},
		key{section: "cluster", name: "user_cores", usage: "most cores that the executors of one user hold; 0 is no limit", value: intValue(&c.Cluster.UserCores, 0, model.MaxTotalCores)},
		key{section: "cluster", name: "gang_after", usage: "how long the oldest app that needs several executors at once waits until cores are kept free for it; 0 is never", value: milliValue(&c.Cluster.GangAfterMilli, model.MaxGangAfterMilli)},
		key{section: "raft", name: "bootstrap_expect", flag: "bootstrap-expect", usage: "how many masters found the cluster together; needed with --join", value: intValue(&c.Raft.BootstrapExpect, 1, maxExpect)},
		key{section: "raft", name: "preset", flag: "raft-preset", usage: "election timing: lan, fast, wan or rig", value: enumValue(&c.Raft.Preset, PresetLAN, PresetFast, PresetWAN, PresetRig)},
		key{section: "raft", name: "log_store", flag: "log-store", usage: "log store: wal or boltdb", value: enumValue(&c.Raft.LogStore, LogStoreWAL, LogStoreBoltDB)},
		key{section: "raft", name: "snapshot_threshold", flag: "snapshot-threshold", usage: "log entries between snapshots", value: intValue(&c.Raft.SnapshotThreshold, 1, maxSnapshotThreshold)},
		key{section: "raft", name: "snapshot_interval", flag: "snapshot-interval", usage: "how often to look whether a snapshot is due", value: durationValue(&c.Raft.SnapshotInterval, time.Second, maxInterval)},
		key{section: "gossip", name: "join", flag: "join", usage: "gossip addresses to start from", value: addressesValue(&c.Gossip.Join, DefaultMasterSerfPort)},
		key{section: "gossip", name: "key_file", flag: "gossip-key-file", usage: "keys of gossip in base64, one a line, the first one encrypts (default: gossip.key of tls.dir)", value: stringValue(&c.Gossip.KeyFile)},
		key{section: "scheduler", name: "worker_beat", flag: "worker-beat", usage: "interval of a worker's beats", value: durationValue(&c.Scheduler.WorkerBeat, minBeat, maxBeat)},
		key{section: "scheduler", name: "worker_timeout", flag: "worker-timeout", usage: "silence after which a worker is dead", value: durationValue(&c.Scheduler.WorkerTimeout, minTimeout, maxTimeout)},
		key{section: "scheduler", name: "driver_timeout", flag: "driver-timeout", usage: "silence after which the app of a driver ends", value: durationValue(&c.Scheduler.DriverTimeout, minTimeout, maxTimeout)},
	)
	keys = append(keys, tlsKeys(&c.TLS)...)
	keys = append(keys, httpKeys(&c.HTTP)...)
	keys = append(keys, key{section: "access", name: "tokens", flag: "tokens", usage: "optional or required: whether people need a token (hearth token) beside a certificate; the same on all masters", value: enumValue(&c.Access.Tokens, TokensOptional, TokensRequired)})
	return append(keys, logKeys(&c.Log)...)
}

// workerKeys binds every setting of a worker to c.
func workerKeys(c *WorkerConfig) []key {
	keys := []key{{name: "data_dir", flag: "data-dir", usage: "directory of identity and journal", value: stringValue(&c.DataDir)}}
	keys = append(keys, networkKeys(&c.Network)...)
	keys = append(
		keys,
		key{section: "gossip", name: "join", flag: "join", usage: "gossip addresses to start from", value: addressesValue(&c.Gossip.Join, DefaultMasterSerfPort)},
		key{section: "gossip", name: "key_file", flag: "gossip-key-file", usage: "keys of gossip in base64, one a line, the first one encrypts (default: gossip.key of tls.dir)", value: stringValue(&c.Gossip.KeyFile)},
		key{section: "worker", name: "masters", flag: "masters", usage: "gRPC addresses of masters", value: addressesValue(&c.Worker.Masters, DefaultMasterGRPCPort)},
		key{section: "worker", name: "cores", flag: "cores", usage: "cores to offer; 0 offers all", value: intValue(&c.Worker.Cores, 0, model.MaxCores)},
		key{section: "worker", name: "memory", flag: "memory", usage: "memory to offer, such as 4g (default: the machine's less 1 GiB, at least half)", value: memoryValue(&c.Worker.MemoryMiB)},
		key{section: "worker", name: "resources", flag: "resources", usage: "named resource as name=address,address, or a file that lists them; may be repeated", value: resourcesValue(&c.Worker.Resources)},
		key{section: "worker", name: "discovery", flag: "discovery", usage: "resource whose addresses a script finds, as name=/path; it prints {\"name\": …, \"addresses\": […]} within 30 s; may be repeated", value: scriptsValue(&c.Worker.Discovery)},
		key{section: "worker", name: "labels", flag: "label", usage: "label as name=value; may be repeated", value: labelsValue(&c.Worker.Labels)},
		key{section: "worker", name: "work_dir", flag: "work-dir", usage: "directory of the executors' directories (default: work in the data directory)", value: stringValue(&c.Worker.WorkDir)},
		key{section: "worker", name: "work_budget", flag: "work-budget", usage: "size of the work directory, such as 20g, from which on directories of ended applications are removed, the oldest first; 0 is no limit", value: memoryValue(&c.Worker.WorkBudgetMiB)},
		key{section: "worker", name: "program_cache", flag: "program-cache", usage: "disk for programs and artifacts that were fetched, such as 4g", value: memoryValue(&c.Worker.ProgramCacheMiB)},
	)
	keys = append(keys, tlsKeys(&c.TLS)...)
	keys = append(keys, httpKeys(&c.HTTP)...)
	return append(keys, logKeys(&c.Log)...)
}

// clientKeys binds every setting of a client command to c.
func clientKeys(c *ClientConfig) []key {
	keys := []key{{section: "client", name: "masters", flag: "masters", env: EnvMasters, usage: "gRPC addresses of masters, any of them", value: addressesValue(&c.Masters, DefaultMasterGRPCPort)}}
	keys = append(keys, key{section: "client", name: "token_file", flag: "token-file", env: EnvTokenFile, usage: "file of mode 0600 with the token to act with", value: stringValue(&c.TokenFile)})
	tls := tlsKeys(&c.TLS)
	tls[0].env = EnvTLSDir
	return append(keys, tls...)
}

func networkKeys(n *Network) []key {
	return []key{
		{section: "network", name: "bind", flag: "bind", usage: "address to listen on", value: stringValue(&n.Bind)},
		{section: "network", name: "advertise", flag: "advertise", usage: "host that others dial (default: the bind address)", value: stringValue(&n.Advertise)},
		{section: "network", name: "allow_insecure", flag: "allow-insecure", usage: "listen beyond loopback without TLS", value: boolValue(&n.AllowInsecure)},
		{section: "network", name: "grpc_port", flag: "grpc-port", usage: "port of gRPC", value: portValue(&n.GRPCPort)},
		{section: "network", name: "serf_port", flag: "serf-port", usage: "port of gossip", value: portValue(&n.SerfPort)},
		{section: "network", name: "http_port", flag: "http-port", usage: "port of HTTP", value: portValue(&n.HTTPPort)},
	}
}

func tlsKeys(t *TLS) []key {
	return []key{
		{section: "tls", name: "dir", flag: "tls-dir", usage: "directory that hearth ca issue wrote, instead of the three files", value: stringValue(&t.Dir)},
		{section: "tls", name: "ca_file", flag: "tls-ca-file", usage: "certificates of the cluster's authority (PEM)", value: stringValue(&t.CAFile)},
		{section: "tls", name: "cert_file", flag: "tls-cert-file", usage: "own certificate (PEM)", value: stringValue(&t.CertFile)},
		{section: "tls", name: "key_file", flag: "tls-key-file", usage: "own private key (PEM)", value: stringValue(&t.KeyFile)},
	}
}

func httpKeys(h *HTTP) []key {
	return []key{
		{section: "http", name: "client_auth", flag: "http-client-auth", usage: "require or optional: whether pages need a client certificate; /healthz and /readyz never do", value: enumValue(&h.ClientAuth, ClientAuthRequire, ClientAuthOptional)},
	}
}

func logKeys(l *Log) []key {
	return []key{
		{section: "log", name: "level", flag: "log-level", usage: "trace, debug, info, warn or error", value: enumValue(&l.Level, "trace", "debug", "info", "warn", "error")},
		{section: "log", name: "format", flag: "log-format", usage: "text, or json: one object a line", value: enumValue(&l.Format, LogFormatText, LogFormatJSON)},
	}
}

func policyValue(p *model.SelectionPolicy) value {
	allowed := make([]string, 0, len(model.SelectionPolicies()))
	for _, policy := range model.SelectionPolicies() {
		allowed = append(allowed, string(policy))
	}
	var text string
	v := enumValue(&text, allowed...)
	set := v.set
	v.set = func(parts []string) error {
		if err := set(parts); err != nil {
			return err
		}
		*p = model.SelectionPolicy(text)
		return nil
	}
	v.text = func() string { return string(*p) }
	return v
}
