package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
	"github.com/hearthd/hearth/workerd/keeper"
)

// workerPoll is how often a worker that changes is looked at.
const workerPoll = 50 * time.Millisecond

// stopWait is how much longer than its own bound a stopping worker is waited
// for.
const stopWait = 10 * time.Second

// workerFlags find the worker that runs on a data directory, by the settings
// that the daemon has.
type workerFlags struct{ file string }

// bind adds the flags of the worker with these names.
func (f *workerFlags) bind(cmd *cobra.Command, names ...string) {
	all := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	config.BindWorkerFlags(all)
	for _, name := range append([]string{"data-dir"}, names...) {
		cmd.Flags().AddFlag(all.Lookup(name))
	}
	cmd.Flags().StringVar(&f.file, "config", "", "HCL configuration file of the worker")
}

func (f *workerFlags) load(cmd *cobra.Command, s Streams) (config.WorkerConfig, error) {
	c, _, err := config.LoadWorker(f.file, s.Env, cmd.Flags())
	return c, err
}

func (f *workerFlags) control(cmd *cobra.Command, s Streams) (workerd.Control, error) {
	c, err := f.load(cmd, s)
	return workerd.NewControl(c.DataDir), err
}

func newWorkerStatus(s Streams) *cobra.Command {
	var flags workerFlags
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the worker that runs on a data directory",
		Long: "Shows the worker that runs on --data-dir of this machine: who it is, whose orders it obeys,\n" +
			"what it offers, and its executors with their process ids. Without a session with a leader\n" +
			"the exit code is 3.",
		Example: "  hearth worker status --data-dir /var/lib/hearth -o json",
		Args:    cobra.NoArgs,
	}
	flags.bind(cmd)
	out.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		control, err := flags.control(cmd, s)
		if err != nil {
			return err
		}
		v, err := control.Status(cmd.Context())
		if err != nil {
			return err
		}
		if err := out.print(s.Out, v, func(w io.Writer) error { return workerStatusTable(w, v) }); err != nil {
			return err
		}
		return sessionless(s.Err, v)
	}
	return cmd
}

// sessionless warns of a worker without a session and turns it into exit code 3.
func sessionless(w io.Writer, v workerd.Status) error {
	switch {
	case v.Leader != "":
		return nil
	case v.ForeignCluster != "":
		_, _ = fmt.Fprintf(w, "hearth: the masters are of cluster %s, this worker is of cluster %s: see hearth worker rejoin --help\n", v.ForeignCluster, v.Cluster)
	default:
		_, _ = fmt.Fprintln(w, "hearth: no session with a leader")
	}
	return exit(exitNoLeader)
}

func workerStatusTable(w io.Writer, v workerd.Status) error {
	state := "running"
	switch {
	case v.Stopping:
		state = "stopping"
	case v.Restarting:
		state = "restarting"
	}
	_, _ = fmt.Fprintf(w, "%s  %s\nprocess     %d, incarnation %d\n", v.Worker, state, v.Process.PID, v.Incarnation)
	_, _ = fmt.Fprintf(w, "cluster     %s, epoch %d, term %d\nleader      %s\n", orDash(v.Cluster), v.Epoch, v.Term, orDash(v.Leader))
	_, _ = fmt.Fprintf(w, "offer       %d cores, %d MiB\n", v.Offer.Cores, v.Offer.MemoryMiB)
	_, _ = fmt.Fprintf(w, "addresses   gRPC %s, Serf %s, HTTP %s\n", v.Offer.GRPCAddr, v.Offer.SerfAddr, v.Offer.HTTPAddr)
	if v.Heritage != (workerd.Heritage{}) {
		_, _ = fmt.Fprintf(w, "last start  %s\n", heritage(v.Heritage))
	}
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "EXECUTOR", "STATE", "PID")
	for _, e := range v.Executors {
		t.row(e.ID, e.State, e.PID)
	}
	return t.flush()
}

func heritage(h workerd.Heritage) string {
	return fmt.Sprintf("%s adopted, %d had ended meanwhile", executors(h.Adopted), h.Ended)
}

func executors(n int) string {
	if n == 1 {
		return "1 executor"
	}
	return fmt.Sprintf("%d executors", n)
}

// handoverFlags are those of what keeps executors.
type handoverFlags struct {
	window time.Duration
	force  bool
}

func (f *handoverFlags) bind(fs *pflag.FlagSet) {
	fs.DurationVar(&f.window, "window", workerd.DefaultRestartWindow,
		"how long leader and keeper wait for the worker, "+workerd.MinRestartWindow.String()+" to "+workerd.MaxRestartWindow.String())
	fs.BoolVar(&f.force, "force", false, "go ahead without a leader")
}

func (f *handoverFlags) check() error {
	if f.window < workerd.MinRestartWindow || f.window > workerd.MaxRestartWindow {
		return usage("--window %s: must be %s to %s", f.window, workerd.MinRestartWindow, workerd.MaxRestartWindow)
	}
	return nil
}

func (f *handoverFlags) handover() workerd.Handover {
	return workerd.Handover{Window: f.window, Force: f.force}
}

func newWorkerRestart(s Streams) *cobra.Command {
	var flags workerFlags
	var hand handoverFlags
	var out output
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Restart the worker while its executors run on",
		Long: "Has the worker on --data-dir begin anew, with the program that is now at its path and the\n" +
			"settings that are now in its file, in the same process; executors run on with the same\n" +
			"process ids. Returns when it has a session with the leader again.\n\n" +
			"First the leader commits that the worker is RESTARTING and for --window holds nothing\n" +
			"against it; then the worker's keeper waits as long with the executors. If nothing has come\n" +
			"back by then, the keeper ends them and the leader replaces them. Executors of the\n" +
			"disconnect policy singleton are ended after half of the window.\n\n" +
			"A program that does not start, or settings with an error, are refused and change nothing.\n" +
			"Without a leader it is refused too: with --force the worker restarts all the same, but a\n" +
			"leader that is elected meanwhile may take it for dead and replace its executors.",
		Example: "  install -m 755 hearth-1.1 /usr/bin/hearth && hearth worker restart --data-dir /var/lib/hearth",
		Args:    cobra.NoArgs,
	}
	flags.bind(cmd)
	hand.bind(cmd.Flags())
	out.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(out.check(), hand.check()); err != nil {
			return err
		}
		control, err := flags.control(cmd, s)
		if err != nil {
			return err
		}
		before, err := control.Restart(cmd.Context(), hand.handover())
		if err != nil {
			return err
		}
		v, err := awaitSuccessor(cmd.Context(), control, before, hand.window)
		if err != nil {
			return err
		}
		return out.print(s.Out, v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s restarted: incarnation %d, %s\n", v.Worker, v.Incarnation, heritage(v.Heritage))
			return err
		})
	}
	return cmd
}

// awaitSuccessor waits for a later incarnation with a session; without a leader
// before, a later incarnation will do.
func awaitSuccessor(ctx context.Context, control workerd.Control, before workerd.Status, window time.Duration) (workerd.Status, error) {
	var last workerd.Status
	err := pollWorker(ctx, window, func(ctx context.Context) (bool, error) {
		v, err := control.Status(ctx)
		if errors.Is(err, workerd.ErrNotRunning) {
			return false, nil
		}
		last = v
		return v.Incarnation > before.Incarnation && (v.Leader != "" || before.Leader == ""), err
	})
	switch {
	case err == nil:
		return last, nil
	case last.Incarnation > before.Incarnation:
		return last, fmt.Errorf("the worker has restarted (%s) but has no session with a leader yet: %w", heritage(last.Heritage), err)
	}
	return last, fmt.Errorf("the worker has not come back, see its log; unless it is started within %s of the restart, its keeper ends its executors: %w", window, err)
}

// pollWorker asks until done, at most for so long.
func pollWorker(ctx context.Context, atMost time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(workerPoll)
	defer tick.Stop()
	var last error
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err // it may be in the middle of a start
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

func newWorkerStop(s Streams) *cobra.Command {
	var flags workerFlags
	var hand handoverFlags
	var keep bool
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the worker",
		Long: "Ends the executors of the worker on --data-dir, has the leader commit that it has left, and\n" +
			"returns when its process is gone: what SIGTERM does.\n\n" +
			"With --keep executors run on instead, as in worker restart, and the next start of the worker\n" +
			"takes them over; if there is none within --window, its keeper ends them and the leader\n" +
			"replaces them.",
		Example: "  hearth worker stop --data-dir /var/lib/hearth --keep --window 5m",
		Args:    cobra.NoArgs,
	}
	flags.bind(cmd)
	hand.bind(cmd.Flags())
	cmd.Flags().BoolVar(&keep, "keep", false, "let executors run on for the next start of the worker")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !keep && (cmd.Flags().Changed("window") || hand.force) {
			return usage("worker stop: --window and --force belong to --keep")
		}
		if err := hand.check(); err != nil {
			return err
		}
		control, err := flags.control(cmd, s)
		if err != nil {
			return err
		}
		stop := control.Stop
		if keep {
			stop = func(ctx context.Context) (workerd.Status, error) { return control.StopKeeping(ctx, hand.handover()) }
		}
		v, err := stop(cmd.Context())
		if err != nil {
			return err
		}
		err = pollWorker(cmd.Context(), workerd.StopBound+stopWait, func(context.Context) (bool, error) {
			running, err := keeper.IsRunning(v.Process)
			return !running, err
		})
		if err != nil {
			return fmt.Errorf("process %d of the worker is still there: %w", v.Process.PID, err)
		}
		what := "ended "
		if keep {
			what = "within " + hand.window.String() + " its next start finds "
		}
		_, err = fmt.Fprintf(s.Out, "%s stopped: %s%s\n", v.Worker, what, executors(len(live(v))))
		return err
	}
	return cmd
}

// live are the executors that have not ended.
func live(v workerd.Status) []workerd.StatusExecutor {
	var out []workerd.StatusExecutor
	for _, e := range v.Executors {
		if !model.ExecutorState.Terminal(e.State) {
			out = append(out, e)
		}
	}
	return out
}
