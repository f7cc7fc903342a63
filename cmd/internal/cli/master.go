package cli

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/internal/priority"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/masterd"
	"github.com/hearthd/hearth/model"
)

// masterNice is the nice value of masters: they need little, but they need it
// within a fraction of the heartbeat time-out (ADR 0023).
const masterNice = -10

// masterGCPercent is how much a master's memory grows, in percent of what it
// needs, before garbage is collected: half the collections for half as much
// memory again (ADR 0044).
const masterGCPercent = 200

// relaxCollector lets the memory of a daemon grow by percent before garbage is
// collected, unless GOGC says something.
func relaxCollector(env []string, percent int) {
	if variable(env, "GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// privateUmask keeps every file of a master from other users.
const privateUmask = 0o077

func newMaster(s Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "master",
		Short: "Run a master",
		Long: "Runs one replica of the cluster's state until it is told to stop. On SIGTERM or an\n" +
			"interrupt it hands leadership over and leaves gossip, but stays a member: start it again\n" +
			"on the same data directory, on any address. SIGHUP reloads certificates and log level.\n\n" +
			"Settings come from defaults, --config, HEARTH_CONFIG_<SECTION>_<KEY> and flags, each\n" +
			"overriding those before it. Its addresses are in listening.json of the data directory,\n" +
			"and in ready.json once it serves as a member of a cluster.",
		Example: "  hearth master                                    # one master on loopback\n" +
			"  hearth master --data-dir /var/lib/hearth --bind 10.0.0.1 --tls-dir /etc/hearth/tls \\\n" +
			"    --join 10.0.0.2:7072,10.0.0.3:7072 --bootstrap-expect 3",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, warnings, err := config.LoadMaster(file, s.Env, cmd.Flags())
			if err != nil {
				return err
			}
			log := newLogger("hearth", conf.Log, s.Err)
			warn(log, warnings)
			log.Info(access(conf))
			if err := requireOpenFiles(); err != nil {
				return lastWord(log, conf.Log, fmt.Errorf("start master: %w", err))
			}
			preferMaster(log)
			relaxCollector(s.Env, masterGCPercent)
			// Libraries make the files of the log and of snapshots readable by all. A
			// master starts no processes, so nobody else inherits this.
			unix.Umask(privateUmask)
			source, err := daemonTLS(conf.TLS, tlsconf.RoleMaster)
			if err != nil {
				return err
			}
			keys, err := gossipKeys(conf.GossipKeyFile())
			if err != nil {
				return err
			}
			r := reloader{log: log, tls: source, level: func() (string, error) {
				c, _, err := config.LoadMaster(file, s.Env, cmd.Flags())
				return c.Log.Level, err
			}}
			defer r.watch(cmd.Context())()
			m, err := masterd.New(masterConfig(conf), masterDeps(log, source, keys))
			if err != nil {
				return lastWord(log, conf.Log, fmt.Errorf("start master: %w", err))
			}
			where := demo.Endpoints{
				ID: string(m.ID()), PID: os.Getpid(),
				GRPC: m.GRPCAddr(), Raft: m.RaftAddr(), Serf: m.SerfAddr(), HTTP: m.HTTPAddr(),
			}
			if err := demo.WriteEndpoints(conf.DataDir, demo.ListeningFile, where); err != nil {
				log.Warn("addresses are not written down", "err", err)
			}
			serve := func(ctx context.Context) error {
				return masterd.Serve(ctx, m, func(again *masterd.Master) {
					log.Warn("this master was restarted in its process", "node", string(again.ID()), "grpc", again.GRPCAddr())
				})
			}
			return lastWord(log, conf.Log, announced(cmd.Context(), log, conf.DataDir, m.Ready(), func() demo.Endpoints { return where }, serve))
		},
	}
	config.BindMasterFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "HCL configuration file")
	return cmd
}

// access says what this master will ask of people.
func access(c config.MasterConfig) string {
	return model.AccessOf(c.TLS.Enabled(), c.Access.Tokens == config.TokensRequired).Text()
}

// preferMaster asks for a raised scheduling priority. Without it everything
// works, but a machine that is out of breath may cost elections.
func preferMaster(log hclog.Logger) {
	raised, err := priority.Raise(masterNice)
	switch {
	case err != nil:
		log.Info("running at normal priority; as root, with CAP_SYS_NICE or with LimitNICE in the unit a busy machine disturbs less", "nice", masterNice, "err", err)
	case raised:
		log.Debug("running at raised priority", "nice", masterNice)
	}
}

func masterDeps(log hclog.Logger, source *tlsconf.Source, keys [][]byte) masterd.Deps {
	d := masterd.Deps{Logger: log, ServerTLS: source.Server(), ClientTLS: source.Client(), GossipKeys: keys}
	if source != nil {
		d.Certificate = source.Validity
	}
	return d
}

func masterConfig(c config.MasterConfig) masterd.Config {
	return masterd.Config{
		DataDir: c.DataDir,
		Bind:    c.Network.Bind, Advertise: c.Network.AdvertiseHost(),
		GRPCPort: c.Network.GRPCPort, RaftPort: c.Network.RaftPort,
		SerfPort: c.Network.SerfPort, HTTPPort: c.Network.HTTPPort,
		Join: c.Gossip.Join, BootstrapExpect: c.Raft.BootstrapExpect,
		RaftPreset: c.Raft.Preset, LogStore: c.Raft.LogStore,
		SnapshotThreshold: uint64(c.Raft.SnapshotThreshold), SnapshotInterval: c.Raft.SnapshotInterval,
		Seeds:      c.Cluster,
		WorkerBeat: c.Scheduler.WorkerBeat, WorkerTimeout: c.Scheduler.WorkerTimeout, DriverTimeout: c.Scheduler.DriverTimeout,
		HTTPCertOptional: c.HTTP.ClientAuth == config.ClientAuthOptional,
		TokensRequired:   c.Access.Tokens == config.TokensRequired,
		Version:          buildVersion().Build,
	}
}
