package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/workerd"
)

func newWorker(s Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker",
		Long: "Offers this machine's cores, memory and named resources to a cluster and runs executors\n" +
			"until it is told to stop. On SIGTERM or an interrupt it ends its executors and leaves the\n" +
			"cluster; if it dies, its executors die with it. SIGHUP reloads certificates and log level.\n\n" +
			"It finds the leader through any of --masters, or through gossip with any member in --join.\n" +
			"Settings come from defaults, --config, HEARTH_CONFIG_<SECTION>_<KEY> and flags, each\n" +
			"overriding those before it. Its addresses are in ready.json of the data directory once it\n" +
			"listens.",
		Example: "  hearth worker                                    # all there is, to a master on loopback\n" +
			"  hearth worker --data-dir /var/lib/hearth --bind 10.0.0.9 \\\n" +
			"    --masters 10.0.0.1,10.0.0.2,10.0.0.3 --cores 16 --memory 64g --label rack=a7",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, warnings, err := config.LoadWorker(file, s.Env, cmd.Flags())
			if err != nil {
				return err
			}
			log := newLogger("hearth", conf.Log, s.Err)
			warn(log, warnings)
			source, err := tlsSource(conf.TLS)
			if err != nil {
				return err
			}
			r := reloader{log: log, tls: source, level: func() (string, error) {
				c, _, err := config.LoadWorker(file, s.Env, cmd.Flags())
				return c.Log.Level, err
			}}
			defer r.watch(cmd.Context())()
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			w, err := workerd.New(workerd.FromConfig(conf, buildVersion().Build), workerd.Deps{
				Logger:    log,
				KeeperExe: []string{self, "keeper"}, ExecutorExe: []string{self, "executor"},
				ServerTLS: source.Server(), ClientTLS: source.Client(), HTTPTLS: source.Server(),
				Environ: s.Env,
			})
			if err != nil {
				return err
			}
			return announced(cmd.Context(), log, conf.DataDir, w.Ready(), func() demo.Endpoints {
				return demo.Endpoints{ID: string(w.ID()), PID: os.Getpid(), GRPC: w.GRPCAddr(), Serf: w.SerfAddr(), HTTP: w.HTTPAddr()}
			}, w.Run)
		},
	}
	config.BindWorkerFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "HCL configuration file")
	return cmd
}
