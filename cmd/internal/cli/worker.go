package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// workerGCPercent is masterGCPercent for workers and keepers. They need few
// megabytes, and collected garbage every few milliseconds in a storm of launches.
const workerGCPercent = 300

func newWorker(s Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker, or control the one that runs",
		Long: "Offers this machine's cores, memory and named resources to a cluster and runs executors\n" +
			"until it is told to stop. On SIGTERM or an interrupt it ends its executors and leaves the\n" +
			"cluster; if it dies, its executors die with it. SIGHUP reloads certificates and log level.\n\n" +
			"It finds the leader through any of --masters, or through gossip with any member in --join.\n" +
			"Settings come from defaults, --config, HEARTH_CONFIG_<SECTION>_<KEY> and flags, each\n" +
			"overriding those before it. Its addresses are in ready.json of the data directory once it\n" +
			"listens.\n\n" +
			"The commands below speak to the worker that runs on --data-dir. After `worker restart` or\n" +
			"`worker stop --keep` executors run on, and the next start takes them over.",
		Example: "  hearth worker                                    # all there is, to a master on loopback\n" +
			"  hearth worker --data-dir /var/lib/hearth --bind 10.0.0.9 --tls-dir /etc/hearth/tls \\\n" +
			"    --masters 10.0.0.1,10.0.0.2,10.0.0.3 --cores 16 --memory 64g --label rack=a7\n" +
			"  hearth worker restart --data-dir /var/lib/hearth # take up a new version or new settings",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd, s, file) },
	}
	config.BindWorkerFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "HCL configuration file")
	cmd.AddCommand(newWorkerStatus(s), newWorkerRestart(s), newWorkerStop(s), newWorkerRejoin(s), newWorkerDecommission(s), newDrain(s), newUndrain(s))
	return cmd
}

// runWorker is the daemon. After a planned restart this process goes on as its
// successor.
func runWorker(cmd *cobra.Command, s Streams, file string) error {
	conf, warnings, err := config.LoadWorker(file, s.Env, cmd.Flags())
	if err != nil {
		return err
	}
	log := newLogger("hearth", conf.Log, s.Err)
	warn(log, warnings)
	relaxCollector(s.Env, workerGCPercent)
	if err := requireOpenFiles(); err != nil {
		return lastWord(log, conf.Log, fmt.Errorf("start worker: %w", err))
	}
	source, err := daemonTLS(conf.TLS, tlsconf.RoleWorker)
	if err != nil {
		return err
	}
	keys, err := gossipKeys(conf.GossipKeyFile())
	if err != nil {
		return err
	}
	load := func() (config.WorkerConfig, error) {
		c, _, err := config.LoadWorker(file, s.Env, cmd.Flags())
		return c, err
	}
	r := reloader{log: log, tls: source, level: func() (string, error) { c, err := load(); return c.Log.Level, err }}
	stopWatching := r.watch(cmd.Context())
	next, err := newSuccessor(os.Args[0])
	if err != nil {
		return err
	}
	d := workerDaemon{log: log, conf: conf, tls: source, keys: keys, env: s.Env, check: func(ctx context.Context) error {
		return next.check(ctx, func() error { _, err := load(); return err })
	}}
	err = d.serve(cmd.Context(), false)
	if errors.Is(err, workerd.ErrRestart) && cmd.Context().Err() != nil {
		// Told to stop when it had handed over already: the executors wait for somebody to end them.
		err = d.serve(context.WithoutCancel(cmd.Context()), true)
	}
	stopWatching()
	if !errors.Is(err, workerd.ErrRestart) {
		return lastWord(log, conf.Log, err)
	}
	log.Info("starting anew", "program", next.path)
	return next.takeOver(os.Args, s.Env)
}

// workerDaemon is what each start of a worker in this process is made from.
type workerDaemon struct {
	log   hclog.Logger
	conf  config.WorkerConfig
	tls   *tlsconf.Source
	keys  [][]byte // of gossip
	env   []string
	check func(context.Context) error
}

// serve runs a worker until ctx ends; with brief it is told to stop as soon as
// it is ready.
func (d workerDaemon) serve(ctx context.Context, brief bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	var validity func() (from, until time.Time)
	var authorities func() []byte
	if d.tls != nil {
		validity, authorities = d.tls.Validity, d.tls.Authorities
	}
	w, err := workerd.New(workerd.FromConfig(d.conf, buildVersion().Build), workerd.Deps{
		Certificate: validity,
		Authorities: authorities,
		Logger:      d.log,
		KeeperExe:   []string{self, "keeper"}, ExecutorExe: []string{self, "executor"},
		ServerTLS: d.tls.Server(), ClientTLS: d.tls.Client(), HTTPTLS: d.tls.Server(), GossipKeys: d.keys,
		Environ: d.env, CheckSuccessor: d.check,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer decommissionOnSignal(ctx, d.log, w)()
	if brief {
		go func() {
			select {
			case <-w.Ready():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return announced(ctx, d.log, d.conf.DataDir, w.Ready(), func() demo.Endpoints {
		return demo.Endpoints{ID: string(w.ID()), PID: os.Getpid(), GRPC: w.GRPCAddr(), Serf: w.SerfAddr(), HTTP: w.HTTPAddr()}
	}, w.Run)
}

// decommissionOnSignal has the worker take itself out of service on SIGPWR, as
// Spark's does (spark-standalone 1.O), until the returned function is called.
func decommissionOnSignal(ctx context.Context, log hclog.Logger, w *workerd.Worker) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPWR)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			asking, cancel := context.WithTimeout(ctx, defaultTimeout)
			err := w.Decommission(asking, model.DrainTerms{Reason: "SIGPWR", DeadlineMilli: workerd.DecommissionDeadline.Milliseconds()})
			cancel()
			if err != nil {
				log.Error("SIGPWR: the worker is not taken out of service", "err", err)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		cancel()
		<-done
	}
}
