package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// appsView is `hearth apps -o json`.
type appsView struct {
	Version   int             `json:"version"`
	Staleness model.Staleness `json:"staleness"`
	Apps      []model.AppView `json:"apps"`
}

// workersView is `hearth workers -o json`.
type workersView struct {
	Version   int                `json:"version"`
	Staleness model.Staleness    `json:"staleness"`
	Workers   []model.WorkerView `json:"workers"`
}

// question builds a command that asks the cluster one thing and prints the
// answer.
func question(s Streams, cmd *cobra.Command, ask func(ctx context.Context, c *session, args []string) (view any, table func(io.Writer) error, err error)) *cobra.Command {
	var flags clusterFlags
	var out output
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		c, err := flags.connect(cmd, s)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		ctx, cancel := flags.bounded(cmd)
		defer cancel()
		view, table, err := ask(ctx, c, args)
		if err != nil {
			return err
		}
		return out.print(s.Out, view, table)
	}
	flags.bind(cmd)
	out.bind(cmd)
	return cmd
}

func newApps(s Streams) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "apps",
		Short:   "List applications",
		Example: "  hearth apps --all -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&all, "all", false, "ended applications too, newest first")
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		r, err := c.Apps(ctx, rpc.AppsRequest{Ended: all})
		if err != nil {
			return nil, nil, err
		}
		v := appsView{Version: model.ViewVersion, Staleness: r.Staleness, Apps: orEmpty(r.Apps)}
		return v, func(w io.Writer) error { return appsTable(w, v.Apps) }, nil
	})
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func newWorkers(s Streams) *cobra.Command {
	var wide bool
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List workers with what they offer and what is used",
		Long: "Lists workers. --wide shows of their memory, in MiB, what the machine has, what of it is not\n" +
			"offered, what is offered, what of that is granted, and what is in use on the machine by\n" +
			"whomever; and resources, labels and drains.",
		Example: "  hearth workers --wide",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "all five numbers of memory, resources, labels and drains too")
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		r, err := c.Workers(ctx)
		if err != nil {
			return nil, nil, err
		}
		v := workersView{Version: model.ViewVersion, Staleness: r.Staleness, Workers: orEmpty(r.Workers)}
		return v, func(w io.Writer) error {
			if wide {
				return offersTable(w, v.Workers)
			}
			return workersTable(w, v.Workers)
		}, nil
	})
}

func newApp(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "app ID",
		Short:   "Describe one application with its executors",
		Long:    "Describes one application. The id may be any unique prefix. Ended executors are listed\nwith their exit codes and reasons.",
		Example: "  hearth app app-20261130061500-0003",
		Args:    cobra.ExactArgs(1),
	}
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		if model.IsDriver(model.AppID(args[0])) {
			return nil, nil, usage("%s is a driver: hearth driver status %s", args[0], args[0])
		}
		v, err := c.App(ctx, rpc.AppRequest{ID: args[0]})
		if err != nil {
			return nil, nil, err
		}
		return v, func(w io.Writer) error { return appTable(w, v) }, nil
	})
}

func appTable(w io.Writer, v model.AppView) error {
	_, _ = fmt.Fprintf(w, "%s  %s  %s\n", v.ID, v.Name, v.State)
	if v.Reason != "" {
		_, _ = fmt.Fprintf(w, "reason      %s\n", v.Reason)
	}
	_, _ = fmt.Fprintf(w, "user        %s\nsubmitted   %s\nstarted     %s\nended       %s\n", orDash(v.User), orDash(v.SubmittedAt), orDash(v.StartedAt), orDash(v.EndedAt))
	_, _ = fmt.Fprintf(w, "cores       %d granted, %s\n", v.Cores, atMost(v.CoresMax))
	_, _ = fmt.Fprintf(w, "executors   %d live, %d running, target %s, %d MiB each\n", v.Live, v.Running, target(v.Target), v.MemoryMiB)
	_, _ = fmt.Fprintf(w, "disconnect  %s\n", orDash(v.Disconnect))
	for _, line := range appExtras(v) {
		_, _ = fmt.Fprintln(w, line)
	}
	if v.Completions > 0 {
		_, _ = fmt.Fprintf(w, "completed   %d of %d\n", v.Completed, v.Completions)
	}
	if v.Terminal {
		_, _ = fmt.Fprintf(w, "exit code   %d\n", v.ExitCode)
	}
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "EXECUTOR", "STATE", "WORKER", "CORES", "PID", "EXIT", "SIGNAL", "REASON")
	for _, e := range v.Executors {
		code := "-"
		if e.Terminal && e.ExitCode >= 0 {
			code = fmt.Sprint(e.ExitCode)
		}
		t.row(e.ID, e.State, e.Worker, e.Cores, e.PID, code, e.Signal, e.Reason)
	}
	return t.flush()
}

// appExtras are the lines about what only some applications have.
func appExtras(v model.AppView) []string {
	var out []string
	add := func(name, format string, args ...any) {
		out = append(out, fmt.Sprintf("%-12s", name)+fmt.Sprintf(format, args...))
	}
	if v.Queue != "" && v.Queue != model.QueueDefault {
		add("queue", "%s", v.Queue)
	}
	if v.MinExecutors > 1 {
		add("gang", "%d executors together or none", v.MinExecutors)
	}
	if len(v.Require) > 0 {
		add("requires", "%s", pairs(v.Require))
	}
	if len(v.Prefer) > 0 {
		add("prefers", "%s", pairs(v.Prefer))
	}
	if v.Driver != "" {
		add("driver", "%s", v.Driver)
	}
	if v.MaxRuntimeMilli > 0 {
		add("max runtime", "%s", model.FormatMilli(v.MaxRuntimeMilli))
	}
	if v.Program != "" {
		add("program", "sha256:%s, %d bytes%s", v.Program, v.ProgramBytes, at(v.ProgramPath))
	}
	if len(v.EndedExecutors) > 0 {
		var counts []string
		for _, cause := range slices.Sorted(maps.Keys(v.EndedExecutors)) {
			counts = append(counts, fmt.Sprintf("%d %s", v.EndedExecutors[cause], cause))
		}
		add("ended by", "%s", strings.Join(counts, ", "))
	}
	return out
}

func at(path string) string {
	if path == "" {
		return ""
	}
	return ", on workers at " + path
}

// pairs writes labels as they are given.
func pairs(labels map[string]string) string {
	list := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, ", ")
}

func atMost(cores int) string {
	if cores == 0 {
		return "no limit of its own"
	}
	return fmt.Sprintf("at most %d", cores)
}

func target(n int) string {
	if n == model.TargetUnlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
