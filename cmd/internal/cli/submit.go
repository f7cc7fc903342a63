package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// submitFlags are what `hearth submit` was asked for.
type submitFlags struct {
	workFlags
	executors     int
	completions   int
	executorCores int
	maxCores      int
	placing       *config.PlacingFlags
	restart       string
	deploy        deployFlags
}

func newSubmit(s Streams) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit [flags] -- COMMAND [ARG...]",
		Short: "Run copies of a command on the cluster",
		Long: "Keeps copies of a command running, or runs it until a number of copies has succeeded.\n" +
			"The command is executed directly, not by a shell. The application's id is printed on\n" +
			"standard output.\n\n" +
			"By default submit returns when the first copy is placed; --detach returns as soon as the\n" +
			"application is registered, --wait when it has ended, with the exit code of the work:\n" +
			"0 if all succeeded, else that of the first failed copy (128+n for signal n), 130 killed\n" +
			"by a user, 124 not placed or not done within --timeout, 255 cluster fault. While nothing is\n" +
			"placed the reason is printed on standard error after 2 s and then every 10 s.\n\n" +
			"With --deploy-mode cluster the command is a driver: it runs once, on a worker, and may register\n" +
			"applications of its own. It is the same as hearth driver submit, which says more.",
		Example: "  hearth submit --executors 3 -- /usr/bin/server --port 9000\n" +
			"  hearth submit --completions 100 --cores 2 --memory 1g --wait -- ./simulate\n" +
			"  hearth submit --deploy-mode cluster --supervise --artifact https://example.org/driver -- ./driver",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if driver, err := f.asDriver(cmd); driver != nil || err != nil {
				if err != nil {
					return &codedError{code: exitUsage, err: err}
				}
				return driver.submit(cmd, s, args)
			}
			spec, err := f.spec(cmd, s, args)
			if err != nil {
				return err
			}
			return f.run(cmd, s, spec)
		},
	}
	cmd.Flags().SetInterspersed(false)
	f.bind(cmd)
	return cmd
}

func (f *submitFlags) bind(cmd *cobra.Command) {
	f.workFlags.bind(cmd, "application")
	fs := cmd.Flags()
	fs.IntVar(&f.executors, "executors", 0, "copies at a time (default: 1; with --completions all of them; with --max-cores as many as it allows)")
	fs.IntVar(&f.completions, "completions", 0, "end as FINISHED after this many copies have exited with 0 (default: keep copies running)")
	fs.IntVar(&f.cores, "cores", 1, "cores of each copy")
	fs.IntVar(&f.executorCores, "executor-cores", 1, "the same as --cores")
	fs.IntVar(&f.maxCores, "max-cores", 0, "most cores over all copies (default: the cluster's default_cores)")
	fs.StringVar(&f.memory, "memory", "512m", "memory of each copy")
	f.placing = config.BindPlacingFlags(fs, "copy")
	fs.StringArrayVar(&f.env, "env", nil, "environment of the copies, NAME=VALUE or NAME to pass yours on (repeatable)")
	fs.StringVar(&f.chdir, "chdir", "", "absolute working directory on the worker (default: a directory of the copy's own)")
	fs.StringArrayVar(&f.files, "file", nil, "file to put into each copy's directory, PATH or PATH:NAME (repeatable)")
	fs.StringVar(&f.restart, "restart", string(model.RestartAlways), "always: replace copies that end; never: the first failure fails the application")
	fs.StringVar(&f.disconnect, "disconnect", string(model.DisconnectKeep), "keep: copies on a worker that is cut off run on until it is back; singleton: they end before they are replaced, so that no two run at once")
	fs.DurationVar(&f.maxRuntime, "max-runtime", 0, "fail the application when it runs longer (default: no limit)")
	f.deploy.bind(fs)
}

// spec turns flags into a description and reports every problem at once.
func (f *submitFlags) spec(cmd *cobra.Command, s Streams, argv []string) (model.AppSpec, error) {
	var ps problems
	w := f.read(s, argv, &ps)
	fs := cmd.Flags()
	if fs.Changed("cores") && fs.Changed("executor-cores") && f.cores != f.executorCores {
		ps.add(fmt.Errorf("--cores %d and --executor-cores %d mean the same: give one", f.cores, f.executorCores))
	}
	cores := f.cores
	if fs.Changed("executor-cores") {
		cores = f.executorCores
	}
	if cores < 1 {
		ps.add(fmt.Errorf("--cores %d: must be at least 1", cores))
	}
	if fs.Changed("max-cores") && f.maxCores < cores {
		ps.add(fmt.Errorf("--max-cores %d: must be at least the cores of one copy, %d", f.maxCores, cores))
	}
	if fs.Changed("executors") && f.executors < 1 {
		ps.add(fmt.Errorf("--executors %d: must be at least 1", f.executors))
	}
	if fs.Changed("completions") && f.completions < 1 {
		ps.add(fmt.Errorf("--completions %d: must be at least 1", f.completions))
	}
	var place model.Placing
	var resources map[string]int
	ps.add(f.placing.Apply(&place, &resources))
	spec := model.AppSpec{
		Name: w.name, User: userName(), Kind: model.AppKindCommand,
		CoresMax: f.maxCores, Executors: f.target(cmd),
		Profile: model.Profile{Cores: cores, MemoryMiB: w.memory, Resources: resources},
		Command: w.command, Files: w.files, Completions: f.completions, Restart: model.Restart(f.restart),
		MaxRuntimeMilli: f.maxRuntime.Milliseconds(), Disconnect: model.DisconnectPolicy(f.disconnect),
	}
	place.Apply(&spec)
	if spec.Executors != model.TargetUnlimited && spec.MinExecutors > spec.Executors {
		ps.add(fmt.Errorf("--min-executors %d: must be at most the %d executors that are wanted at a time: ask for more with --executors", spec.MinExecutors, spec.Executors))
	}
	if err := ps.orOf(spec.Validate); err != nil {
		return model.AppSpec{}, err
	}
	return spec, nil
}

func (f *submitFlags) target(cmd *cobra.Command) int {
	switch {
	case cmd.Flags().Changed("executors"):
		return f.executors
	case f.completions > 0:
		return f.completions
	case f.maxCores > 0:
		return model.TargetUnlimited
	}
	return 1
}

// run registers the application and waits as far as it was asked to.
func (f *submitFlags) run(cmd *cobra.Command, s Streams, spec model.AppSpec) error {
	return submission[model.AppView]{
		kind: "application", kill: "hearth kill", code: endedCode,
		submit: func(ctx context.Context, c *session) (string, error) {
			reply, err := c.RegisterApp(ctx, spec)
			return string(reply.App), err
		},
		await: func(ctx context.Context, c *session, id string) (v model.AppView, ended bool, err error) {
			switch app := model.AppID(id); {
			case f.wait:
				v, err = awaitEnd(ctx, c, s.Err, app)
			case f.detach:
				v, err = c.WaitApp(ctx, app, 0)
			default:
				v, err = awaitPlacement(ctx, c, s.Err, app)
			}
			return v, v.Terminal, err
		},
	}.run(cmd, s, &f.cluster, f.out, f.wait)
}

// waitedFor says what goes on although the wait for it, for its end or for its
// placement, was given up; end is the command that ends it.
func waitedFor(err error, forEnd bool, limit time.Duration, what, end string) error {
	goal := "placed"
	if forEnd {
		goal = "done"
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &codedError{code: exitTimeout, err: fmt.Errorf("%s goes on: not %s within %s; end it with %s", what, goal, limit, end)}
	case errors.Is(err, context.Canceled):
		return &codedError{code: exitKilled, err: fmt.Errorf("interrupted: %s goes on; end it with %s", what, end)}
	}
	return faultCode(forEnd, err)
}

// faultCode makes a cluster fault 255 for those who wait for the work's code.
func faultCode(wait bool, err error) error {
	if wait && exitCode(err) == exitFailed {
		return &codedError{code: exitFault, err: err}
	}
	return err
}

// endedCode says how an application ended and returns the code of the work.
func endedCode(w io.Writer, v model.AppView) error {
	if v.State != model.AppFinished {
		_, _ = fmt.Fprintf(w, "hearth: application %s %s: %s\n", v.ID, v.State, orDash(v.Reason))
	}
	switch {
	case v.State == model.AppKilled: // whatever its driver ended with
		return exit(exitKilled)
	case v.State == model.AppFailed && v.ExitCode == 0: // its driver has named no code
		return exit(exitFault)
	}
	return exit(v.ExitCode)
}
