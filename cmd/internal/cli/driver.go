package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// driversView is `hearth driver list -o json`.
type driversView struct {
	Version   int                `json:"version"`
	Staleness model.Staleness    `json:"staleness"`
	Drivers   []model.DriverView `json:"drivers"`
}

func newDriver(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "driver",
		Short: "Run drivers on the cluster: cluster mode",
		Long: "A driver in cluster mode is any program that the cluster runs on one of its workers. Its\n" +
			"environment says where the masters are, so that it can register applications, for\n" +
			"instance with hearth run. It is placed before any executor; with --supervise it is launched\n" +
			"again when it fails or is lost with its worker. What it has registered ends with it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDriverSubmit(s), newDriverList(s), newDriverStatus(s), newDriverWait(s), newDriverKill(s), newDriverKillAll(s), newDriverLogs(s))
	return cmd
}

func newDriverList(s Streams) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List drivers",
		Example: "  hearth driver list --all -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&all, "all", false, "ended drivers too, newest first")
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		r, err := c.Drivers(ctx, rpc.DriversRequest{Ended: all})
		if err != nil {
			return nil, nil, err
		}
		v := driversView{Version: model.ViewVersion, Staleness: r.Staleness, Drivers: orEmpty(r.Drivers)}
		return v, func(w io.Writer) error { return driversTable(w, v.Drivers) }, nil
	})
}

// newDrivers is the list beside apps and workers.
func newDrivers(s Streams) *cobra.Command {
	cmd := newDriverList(s)
	cmd.Use, cmd.Aliases, cmd.Short = "drivers", nil, "List drivers in cluster mode"
	cmd.Example = "  hearth drivers --all -o json"
	return cmd
}

func driversTable(w io.Writer, list []model.DriverView) error {
	t := newTable(w, "DRIVER", "NAME", "USER", "STATE", "ATTEMPT", "WORKER", "CORES", "MIB", "SUPERVISE", "SUBMITTED", "REASON")
	for _, d := range list {
		t.row(d.ID, d.Name, orDash(d.User), d.State, d.Attempt, orDash(string(d.Worker)), d.Cores, d.MemoryMiB, d.Supervise, d.SubmittedAt, orDash(d.Reason))
	}
	return t.flush()
}

func newDriverStatus(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status ID",
		Short:   "Describe one driver with its attempts",
		Long:    "Describes one driver. The id may be any unique prefix. Each launch is an attempt; the last\nones that have ended are listed with their exit codes and reasons.",
		Example: "  hearth driver status driver-20261130061500-0003",
		Args:    cobra.ExactArgs(1),
	}
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		v, err := c.Driver(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return v, func(w io.Writer) error { return driverTable(w, v) }, nil
	})
}

func driverTable(w io.Writer, v model.DriverView) error {
	_, _ = fmt.Fprintf(w, "%s  %s  %s\n", v.ID, v.Name, v.State)
	if v.Reason != "" {
		_, _ = fmt.Fprintf(w, "reason      %s\n", v.Reason)
	}
	_, _ = fmt.Fprintf(w, "user        %s\nsubmitted   %s\nstarted     %s\nended       %s\n", orDash(v.User), orDash(v.SubmittedAt), orDash(v.StartedAt), orDash(v.EndedAt))
	_, _ = fmt.Fprintf(w, "command     %s\n", strings.Join(v.Command, " "))
	_, _ = fmt.Fprintf(w, "size        %d cores, %d MiB\n", v.Cores, v.MemoryMiB)
	_, _ = fmt.Fprintf(w, "supervise   %t, %d failures that count\n", v.Supervise, v.Failures)
	_, _ = fmt.Fprintf(w, "disconnect  %s\n", orDash(v.Disconnect))
	if v.MaxRuntimeMilli > 0 {
		_, _ = fmt.Fprintf(w, "max runtime %s\n", model.FormatMilli(v.MaxRuntimeMilli))
	}
	if v.QueuePosition > 0 {
		_, _ = fmt.Fprintf(w, "queue       place %d\n", v.QueuePosition)
	}
	if v.BackoffLeft > 0 {
		_, _ = fmt.Fprintf(w, "again in    %s\n", model.FormatMilli(v.BackoffLeft))
	}
	if v.Terminal {
		_, _ = fmt.Fprintf(w, "exit code   %d\n", v.ExitCode)
	}
	for _, a := range v.Apps {
		_, _ = fmt.Fprintf(w, "application %s\n", a)
	}
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "ATTEMPT", "STATE", "WORKER", "PID", "EXIT", "SIGNAL", "PLACED", "ENDED", "REASON")
	for _, e := range v.Attempts {
		code := "-"
		if e.Terminal && e.ExitCode >= 0 {
			code = fmt.Sprint(e.ExitCode)
		}
		t.row(e.ID, e.State, e.Worker, e.PID, code, e.Signal, e.PlacedAt, orDash(e.EndedAt), orDash(e.Reason))
	}
	return t.flush()
}

func newDriverKill(s Streams) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "End drivers",
		Long: "Ends the named drivers, supervised ones for good. One that waits is KILLED at once; the\n" +
			"process of another gets SIGTERM and after 10 s SIGKILL, and holds its place until it is gone.",
		Example: "  hearth driver kill driver-20261130061500-0003",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown with what was ended (default: who did it)")
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		return killAll(ctx, c, args, reasonOr(reason), findDriver)
	})
}

func reasonOr(reason string) string {
	if reason == "" {
		return "killed by " + orDash(userName())
	}
	return reason
}

// findDriver finds the driver that an id names.
func findDriver(ctx context.Context, c *session, id string) (victim, error) {
	if err := named(id); err != nil {
		return victim{}, err
	}
	v, err := c.Driver(ctx, id)
	if err != nil {
		return victim{}, err
	}
	return victim{id: string(v.ID), end: func(ctx context.Context, why string) error { return c.KillDriver(ctx, v.ID, why) }}, nil
}

func newDriverKillAll(s Streams) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "kill-all",
		Short: "End every driver",
		Long: "Ends every driver that you may end: all of them for an operator, your own for a submitter.\n" +
			"Applications whose driver runs elsewhere are left alone. It asks first, unless --yes is given.",
		Example: "  hearth driver kill-all --yes --reason 'the cluster moves'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return confirm(s, yes, "driver kill-all", "end all drivers that you may end?")
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown with what was ended (default: who did it)")
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		if err := c.KillDrivers(ctx, reasonOr(reason)); err != nil {
			return nil, nil, err
		}
		return done("ended all drivers")
	})
}

func newDriverWait(s Streams) *cobra.Command {
	return waiting(s, &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a driver has ended; exit with its code",
		Long: "Waits until the driver has ended. The exit code is that of its program (128+n for signal\n" +
			"n), 130 if it was killed by a user, 124 if it is not done within --timeout, 255 if the\n" +
			"cluster has lost it.",
	}, "driver", func(ctx context.Context, c *session, id string) (model.DriverView, error) {
		v, err := c.Driver(ctx, id)
		if err != nil {
			return v, unanswered(err)
		}
		return driverEnded(ctx, c, v.ID)
	}, driverCode)
}

// driverEnded returns when the driver has ended.
func driverEnded(ctx context.Context, c *session, id model.DriverID) (model.DriverView, error) {
	var after uint64
	for {
		v, err := c.WaitDriver(ctx, id, after)
		if err != nil || v.Terminal {
			return v, err
		}
		after = v.ChangeIndex
	}
}

// driverCode says how a driver ended and returns the code of its work.
func driverCode(w io.Writer, v model.DriverView) error {
	if v.State != model.DriverFinished {
		_, _ = fmt.Fprintf(w, "hearth: driver %s %s: %s\n", v.ID, v.State, orDash(v.Reason))
	}
	return exit(v.ExitCode)
}

func newDriverLogs(s Streams) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what a driver wrote",
		Long: "Prints the output of a driver's last attempt, or of the attempt driver-…/N. Any master\n" +
			"serves it: it is streamed from the worker.",
		Example: "  hearth driver logs -f driver-20261130061500-0003",
		Args:    cobra.ExactArgs(1),
		RunE:    f.run(s, f.printDriver),
	}
	f.bind(cmd)
	return cmd
}

// printDriver prints the output of one attempt.
func (f *logFlags) printDriver(ctx context.Context, c *session, s Streams, id string) error {
	if f.tail < 0 {
		return usage("--tail %d: must not be negative", f.tail)
	}
	name, number, single := strings.Cut(id, "/")
	v, err := c.Driver(ctx, name)
	if err != nil {
		return unanswered(err)
	}
	ref := v.ID.Ref(v.Attempt)
	if single {
		if ref, err = model.ParseExecutorRef(string(v.ID) + "/" + number); err != nil {
			return usage("%w", err)
		}
	}
	if v.Attempt == 0 {
		return fmt.Errorf("%w: driver %s is %s and has written nothing: hearth why %s says why it waits", model.ErrNotFound, v.ID, v.State, v.ID)
	}
	return f.executor(ctx, c, s, ref)
}
