package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/demo"
)

// demoFlags are what `hearth demo` was asked for.
type demoFlags struct {
	conf demo.Config
	stop bool
	out  output
}

func newDemo(s Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a cluster here, run a job on it, and kill its leader and a worker",
		Long: "Starts masters and workers as processes of this machine, submits a job through a standby\n" +
			"that counts lines, words and bytes of all .go files of the Go distribution, kills the\n" +
			"leader and a worker with SIGKILL when a quarter of the results are in, compares the result\n" +
			"with a plain count, and takes everything down. A time line is printed; the exit code is 1 if\n" +
			"anything was not as it should be.\n\n" +
			"With --keep the cluster is left running, in sessions of its own; --no-job only starts it,\n" +
			"and returns when every process is ready.",
		Example: "  hearth demo\n" +
			"  hearth demo --input /usr/share/doc\n" +
			"  hearth demo --keep --no-job --dir /tmp/cluster -o json\n" +
			"  hearth demo --stop --dir /tmp/cluster",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.stop {
				return demoError(cmd.Context(), demo.Stop(cmd.Context(), f.conf.Dir))
			}
			return f.run(cmd.Context(), s)
		},
	}
	f.bind(cmd)
	cmd.AddCommand(newDemoCount(s))
	return cmd
}

func (f *demoFlags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.conf.Dir, "dir", "", "directory of data and logs: empty, new, or of an earlier demonstration (default: a temporary one)")
	fs.StringVar(&f.conf.Input, "input", "", "count the files of this tree (default: the .go files of the Go distribution)")
	fs.IntVar(&f.conf.Masters, "masters", demo.DefaultMasters, "how many masters")
	fs.IntVar(&f.conf.Workers, "workers", demo.DefaultWorkers, "how many workers")
	fs.IntVar(&f.conf.WorkerCores, "worker-cores", demo.DefaultWorkerCores, "cores that each worker offers")
	fs.StringVar(&f.conf.WorkerMemory, "worker-memory", demo.DefaultWorkerMemory, "memory that each worker offers")
	fs.BoolVar(&f.conf.Secure, "secure", false, "with TLS and a role for every process, encrypted gossip, and a token for the operator")
	fs.BoolVar(&f.conf.Keep, "keep", false, "leave the cluster running and print how to use it")
	fs.BoolVar(&f.conf.NoJob, "no-job", false, "run no job; needs --keep")
	fs.BoolVar(&f.stop, "stop", false, "end the demonstration that was left running in --dir")
	f.out.bind(cmd)
}

// check finds contradictions that demo.Config cannot see.
func (f *demoFlags) check(cmd *cobra.Command) error {
	if err := f.out.check(); err != nil {
		return err
	}
	switch {
	case f.stop && f.conf.Dir == "":
		return usage("--stop: needs --dir, where the demonstration was started")
	case f.stop && (f.conf.Keep || f.conf.NoJob || cmd.Flags().Changed("input")):
		return usage("--stop goes with --dir alone")
	case f.out.format == formatJSON && !f.conf.NoJob:
		return usage("-o json: describes a cluster that was started, so it needs --keep --no-job")
	}
	return nil
}

func (f *demoFlags) run(ctx context.Context, s Streams) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	f.conf.Exe, f.conf.Env, f.conf.Out = self, s.Env, s.Out
	if f.out.format == formatJSON {
		f.conf.Out = s.Err // standard output is for JSON alone
	}
	left, dir, err := demo.Run(ctx, f.conf)
	if err != nil {
		return demoError(ctx, err)
	}
	if left == nil {
		return nil
	}
	return f.out.print(s.Out, left, func(w io.Writer) error { return demoTable(w, left, dir) })
}

// demoTable says how to use a cluster that was left running.
func demoTable(w io.Writer, c *demo.Cluster, dir string) error {
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "PROCESS", "ID", "PID", "GRPC", "HTTP")
	for _, m := range c.Masters {
		role := "standby"
		if m.Leader {
			role = "leader"
		}
		t.row(role, m.ID, m.PID, m.GRPC, m.HTTP)
	}
	for _, x := range c.Workers {
		t.row("worker", x.ID, x.PID, x.GRPC, x.HTTP)
	}
	if err := t.flush(); err != nil {
		return err
	}
	var exports strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		fmt.Fprintf(&exports, "  export %s=%s\n", name, c.Env[name])
	}
	_, err := fmt.Fprintf(w, "\nThe cluster goes on. Use it with\n\n"+
		"%s"+
		"  hearth status\n"+
		"  hearth run 'echo {} in $PWD' ::: a b c\n\n"+
		"and end it with\n\n  hearth demo --stop --dir %s\n", exports.String(), dir)
	return err
}

func demoError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &codedError{code: exitKilled, err: err}
	case errors.Is(err, demo.ErrUsage):
		return &codedError{code: exitUsage, err: err}
	}
	// Not 124 or 3: a demonstration that fails has failed.
	return &codedError{code: exitFailed, err: err}
}

// newDemoCount is what the tasks of the demonstration run.
func newDemoCount(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "count FILE...",
		Short:  "Count lines, words and bytes of files",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return demo.CountFiles(s.Out, args)
		},
	}
}
