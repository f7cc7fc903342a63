package cli

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/run"
)

// runFlags are what `hearth run` was asked for.
type runFlags struct {
	file   string
	opts   run.Options
	memory string
	halt   string

	placing *config.PlacingFlags
}

func newRun(s Streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] COMMAND [::: INPUT...]",
		Short: "Run a shell command for each input, over the whole cluster",
		Long: "Runs COMMAND with /bin/sh on the cluster's workers, once for each input, in the manner of\n" +
			"GNU parallel. Inputs follow `:::`, or come from --arg-file, or else from standard input, one\n" +
			"a line; several sources are combined. In COMMAND, {} is the input, {.} without extension,\n" +
			"{/} its last component, {//} its directory, {#} the task's number, {2} the input of the\n" +
			"second source; without any of them the input is appended. Quoting is added where needed.\n\n" +
			"Each task runs in a fresh directory and gets no environment of yours except by --env. Tasks\n" +
			"that are lost with a worker run again elsewhere. Ctrl-C ends the application.\n\n" +
			"The exit code is the number of failed tasks, 101 at most (with --halt now,fail=1 the code of\n" +
			"the failing task); 130 interrupted, 254 usage, 255 cluster fault.",
		Example: "  hearth run 'gzip -c {} > {.}.gz' ::: /data/*.txt\n" +
			"  hearth run --cores 2 --retries 3 -k -a names.txt 'simulate --name {} --seed {#}'\n" +
			"  seq 100 | hearth run --halt now,fail=1 --timeout 30s --transfer check ./check",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &codedError{code: run.CodeUsage, err: errors.Join(err, errors.New("see hearth run --help"))}
	})
	cmd.Flags().SetInterspersed(false)
	f.bind(cmd)
	return cmd
}

func (f *runFlags) bind(cmd *cobra.Command) {
	config.BindClientFlags(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&f.file, "config", "", "HCL file with a client {} block")
	fs.StringArrayVarP(&f.opts.ArgFiles, "arg-file", "a", nil, "file with one input a line, - is standard input (repeatable)")
	fs.BoolVarP(&f.opts.NullSeparated, "null", "0", false, "inputs of files end with NUL, not with a newline")
	fs.StringVar(&f.opts.Name, "name", "", "name of the application (default: the command's first word)")
	fs.IntVar(&f.opts.Cores, "cores", 1, "cores of each task")
	fs.IntVarP(&f.opts.Jobs, "jobs", "j", 0, "most tasks at once (default: as many as the cluster grants)")
	fs.StringVar(&f.memory, "memory", "512m", "memory of each executor")
	f.placing = config.BindPlacingFlags(fs, "executor")
	fs.BoolVarP(&f.opts.KeepOrder, "keep-order", "k", false, "print output in the order of the inputs")
	fs.IntVar(&f.opts.Retries, "retries", 0, "run a failed task again, up to so many times")
	fs.DurationVar(&f.opts.Timeout, "timeout", 0, "end a task that runs longer (default: no limit)")
	fs.StringVar(&f.opts.ResultsDir, "results", "", "save stdout, stderr and exit code of each task below this directory")
	fs.StringVar(&f.halt, "halt", "never", "stop early: soon or now, with fail=N, fail=N% or success=N")
	fs.StringArrayVar(&f.opts.Transfer, "transfer", nil, "file to put into each task's directory; may hold {} (repeatable)")
	fs.StringArrayVar(&f.opts.Env, "env", nil, "environment of the tasks, NAME=VALUE or NAME to pass yours on (repeatable)")
	fs.StringVar(&f.opts.Chdir, "chdir", "", "absolute working directory on the workers (default: a fresh one for each task)")
	fs.StringVar(&f.opts.Bind, "bind", "", "address on which executors are served (default: loopback if the masters are there, else that of the route to them)")
	fs.StringVar(&f.opts.Advertise, "advertise", "", "host under which executors reach it (default: the bind address)")
}

// options completes f.opts and reports every problem at once.
func (f *runFlags) options(s Streams, args []string) error {
	var errs []error
	f.opts.Command, f.opts.Args = run.SplitArgs(args)
	if strings.TrimSpace(f.opts.Command) == "" {
		errs = append(errs, errors.New("no command given"))
	}
	if f.opts.Cores < 1 {
		errs = append(errs, errors.New("--cores: must be at least 1"))
	}
	var err error
	if f.opts.MemoryMiB, err = parseMemory(f.memory); err != nil {
		errs = append(errs, err)
	}
	if f.opts.Halt, err = run.ParseHalt(f.halt); err != nil {
		errs = append(errs, wrapFlag("--halt", err))
	}
	if err := f.placing.Apply(&f.opts.Placing, &f.opts.Resources); err != nil {
		errs = append(errs, err)
	}
	f.opts.User, f.opts.Environ = userName(), s.Env
	if len(errs) > 0 {
		return &codedError{code: run.CodeUsage, err: errors.Join(errs...)}
	}
	return nil
}

func (f *runFlags) run(cmd *cobra.Command, s Streams, args []string) error {
	if err := f.options(s, args); err != nil {
		return err
	}
	conf, warnings, err := config.LoadClient(f.file, s.Env, cmd.Flags())
	if err != nil {
		return &codedError{code: run.CodeUsage, err: err}
	}
	for _, w := range warnings {
		cmd.PrintErrln("hearth: warning: " + w)
	}
	source, err := tlsSource(conf.TLS)
	if err != nil {
		return &codedError{code: run.CodeUsage, err: err}
	}
	token, err := config.ReadToken(conf.TokenFile)
	if err != nil {
		return &codedError{code: run.CodeUsage, err: err}
	}
	owner, attempt := client.DriverFromEnv(s.Env)
	c, err := client.New(client.Config{Masters: conf.Masters, TLS: source.Client(), Principal: userName(), Token: token, Driver: owner, Attempt: attempt})
	if err != nil {
		return &codedError{code: run.CodeUsage, err: err}
	}
	defer func() { _ = c.Close() }()
	sum, code, err := run.Run(cmd.Context(), f.opts, run.Deps{
		Client: c, Masters: conf.Masters,
		Stdin: s.In, Stdout: s.Out, Stderr: s.Err, IsTerminal: isTerminal(s.Err),
	})
	switch {
	case err != nil:
		return &codedError{code: code, err: err}
	case sum.NotDone > 0:
		cmd.PrintErrf("hearth: %d of %d tasks failed and %d were not done, after %s\n", sum.Failed, sum.Tasks, sum.NotDone, sum.Elapsed.Round(time.Millisecond))
	case sum.Failed > 0:
		cmd.PrintErrf("hearth: %d of %d tasks failed\n", sum.Failed, sum.Tasks)
	}
	return exit(code)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
