package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// defaultDrain is how long what runs on a drained worker is left alone.
const defaultDrain = time.Hour

// drainPoll is how often a worker that is drained is looked at.
const drainPoll = 500 * time.Millisecond

// drainFlags are the terms of a drain.
type drainFlags struct {
	deadline time.Duration
	idleOnly bool
	reason   string
}

func (f *drainFlags) bind(fs *pflag.FlagSet) {
	fs.DurationVar(&f.deadline, "deadline", defaultDrain, "end what still runs after this long; 0 waits for as long as it takes")
	fs.BoolVar(&f.idleOnly, "idle-only", false, "move nothing: wait until what runs has ended by itself (without a deadline unless one is given)")
	fs.StringVar(&f.reason, "reason", "", "shown with the worker and what is moved off it")
}

// terms checks the flags of a parsed command.
func (f *drainFlags) terms(fs *pflag.FlagSet) (model.DrainTerms, error) {
	deadline := f.deadline
	if f.idleOnly && !fs.Changed("deadline") {
		deadline = 0
	}
	if deadline < 0 || deadline.Milliseconds() > model.MaxDrainMilli || deadline > 0 && deadline < time.Millisecond {
		return model.DrainTerms{}, usage("--deadline %s: must be 0 (none), or 1ms to %s", deadline, time.Duration(model.MaxDrainMilli)*time.Millisecond)
	}
	return model.DrainTerms{Reason: f.reason, DeadlineMilli: deadline.Milliseconds(), IdleOnly: f.idleOnly}, nil
}

// drainedView is the answer of drain and undrain with -o json.
type drainedView struct {
	Version int                `json:"version"`
	Workers []model.WorkerView `json:"workers"`
}

func newDrain(s Streams) *cobra.Command {
	var terms drainFlags
	var hosts []string
	var wait bool
	cmd := &cobra.Command{
		Use:   "drain [ID...]",
		Short: "Take workers out of service",
		Long: "Takes workers out of service: nothing new is placed on them, and what they run is moved.\n" +
			"A worker is DRAINING while something of the cluster runs there, then DRAINED. It stays so\n" +
			"through its restarts and those of masters, until `hearth undrain`.\n\n" +
			"Copies of a command run on until as many as are wanted run elsewhere. Executors of an\n" +
			"application with a driver are DECOMMISSIONING: they are replaced, get no new tasks, and end\n" +
			"when they have none left. Drivers that are supervised, and executors of the disconnect\n" +
			"policy singleton, are ended and launched again elsewhere. Copies that do a piece of work\n" +
			"(--completions), and other drivers, are left to their end. What is left at --deadline is\n" +
			"ended; copies that are still wanted run again elsewhere.\n\n" +
			"Naming a worker that is drained gives it new terms. An id may be any unique prefix; --host\n" +
			"names all workers of a machine.",
		Example: "  hearth drain worker-20261130061500-1f2e --deadline 10m --reason \"new memory\" --wait --timeout 15m\n" +
			"  hearth drain --host node7 --idle-only",
	}
	terms.bind(cmd.Flags())
	bindHosts(cmd.Flags(), &hosts)
	cmd.Flags().BoolVar(&wait, "wait", false, "return when nothing of the cluster is left on the workers (DRAINED, DEAD or LEFT), at most after --timeout")
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		t, err := terms.terms(cmd.Flags())
		if err != nil {
			return nil, nil, err
		}
		choice, err := chosen(cmd, args, hosts)
		if err != nil {
			return nil, nil, err
		}
		r, err := c.DrainWorkers(ctx, rpc.DrainRequest{Workers: choice, Terms: t})
		if err != nil {
			return nil, nil, err
		}
		return drained(ctx, c, r.Workers, func(w model.WorkerView) bool {
			// By the flags, not the name of the state: a later release may have others (UX-05).
			return w.Drain != nil && (!wait || w.Executors == 0 || !w.Active)
		})
	})
}

func newUndrain(s Streams) *cobra.Command {
	var hosts []string
	cmd := &cobra.Command{
		Use:   "undrain [ID...]",
		Short: "Put drained workers into service again",
		Long: "Ends the drain of workers, and cancels one that is still under way: copies of a command that\n" +
			"run on a worker stay, and their replacements go; executors of an application with a driver\n" +
			"stay where they are still wanted.",
		Example: "  hearth undrain worker-20261130061500-1f2e\n  hearth undrain --host node7",
	}
	bindHosts(cmd.Flags(), &hosts)
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		choice, err := chosen(cmd, args, hosts)
		if err != nil {
			return nil, nil, err
		}
		r, err := c.UndrainWorkers(ctx, choice)
		if err != nil {
			return nil, nil, err
		}
		return drained(ctx, c, r.Workers, func(w model.WorkerView) bool { return w.Drain == nil })
	})
}

// chosen checks which workers are named.
func chosen(cmd *cobra.Command, ids, hosts []string) (rpc.WorkerChoice, error) {
	choice := rpc.WorkerChoice{IDs: ids, Hosts: hosts}
	if len(ids)+len(hosts) == 0 {
		return choice, usageOf(cmd, errors.New("name workers by their ids, or by --host"))
	}
	return choice, choice.Validate()
}

func bindHosts(fs *pflag.FlagSet, hosts *[]string) {
	fs.StringArrayVar(hosts, "host", nil, "all workers of the machine with this host name, without regard to case (repeatable)")
}

// drained waits until the master that answers has all of the workers as they
// should be, and shows them. One that it has forgotten is done.
func drained(ctx context.Context, c *session, ids []model.WorkerID, done func(model.WorkerView) bool) (any, func(io.Writer) error, error) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		r, err := c.Workers(ctx)
		if err != nil {
			return nil, nil, err
		}
		v := drainedView{Version: model.ViewVersion, Workers: []model.WorkerView{}}
		var open []string
		for _, w := range r.Workers {
			if !slices.Contains(ids, w.ID) {
				continue
			}
			v.Workers = append(v.Workers, w)
			if !done(w) {
				open = append(open, fmt.Sprintf("%s is %s with %d executors", w.ID, w.State, w.Executors))
			}
		}
		if len(open) == 0 {
			return v, func(w io.Writer) error { return drainTable(w, v.Workers) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the order stands, but it is not carried out yet: %s: %w", strings.Join(open, "; "), ctx.Err())
		case <-tick.C:
		}
	}
}

func drainTable(w io.Writer, workers []model.WorkerView) error {
	t := newTable(w, "WORKER", "STATE", "HOST", "EXECUTORS", "DEADLINE", "DRAIN")
	for _, x := range workers {
		deadline, drain := "", ""
		if x.Drain != nil {
			drain = drainWords(*x.Drain)
			if x.Drain.DeadlineLeft >= 0 {
				deadline = "in " + (time.Duration(x.Drain.DeadlineLeft) * time.Millisecond).Round(time.Second).String()
			}
		}
		t.row(x.ID, x.State, x.Hostname, x.Executors, deadline, drain)
	}
	return t.flush()
}

// drainWords says who has drained a worker and why.
func drainWords(d model.DrainView) string {
	words := "by " + orDash(d.By) + " since " + d.Since
	if d.IdleOnly {
		words += ", idle only"
	}
	if d.Reason != "" {
		words += ": " + d.Reason
	}
	return words
}

func newWorkerDecommission(s Streams) *cobra.Command {
	var flags workerFlags
	var terms drainFlags
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "decommission",
		Short: "Have the worker take itself out of service",
		Long: "Has the worker on --data-dir of this machine ask the leader to drain it, as `hearth drain` does\n" +
			"from anywhere; the worker needs no token for that. Without a session with a leader it is\n" +
			"refused. SIGPWR to the worker's process does the same with the default deadline.",
		Example: "  hearth worker decommission --data-dir /var/lib/hearth --deadline 5m --block-until-idle",
		Args:    cobra.NoArgs,
	}
	flags.bind(cmd)
	terms.bind(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "block-until-idle", false, "return when the worker runs no executor any more, at most after --timeout")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultDrain+10*time.Minute, "give up waiting after this long")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := terms.terms(cmd.Flags())
		if err != nil {
			return err
		}
		control, err := flags.control(cmd, s)
		if err != nil {
			return err
		}
		v, err := control.Decommission(cmd.Context(), t)
		if err != nil {
			return err
		}
		if wait {
			err = pollWorker(cmd.Context(), timeout, func(ctx context.Context) (bool, error) {
				v, err = control.Status(ctx)
				return len(live(v)) == 0, err
			})
			if err != nil {
				return fmt.Errorf("%s is being drained and still runs %s: %w", v.Worker, executors(len(live(v))), err)
			}
		}
		_, err = fmt.Fprintf(s.Out, "%s is drained: it runs %s\n", v.Worker, executors(len(live(v))))
		return err
	}
	return cmd
}

// offersTable lists workers with the five numbers of their memory (AC-10): what
// the machine has, what of it is not offered, what is offered, what of that is
// granted, and what is in use there by whomever.
func offersTable(w io.Writer, workers []model.WorkerView) error {
	t := newTable(w, "WORKER", "STATE", "HOST", "CORES", "TOTAL MIB", "RESERVED", "OFFERED", "GRANTED", "HOST USED", "EXECUTORS", "RESOURCES", "LABELS", "REASON")
	for _, x := range workers {
		total, used := "", ""
		if x.MemoryTotalMiB > 0 {
			total = strconv.FormatInt(x.MemoryTotalMiB, 10)
		}
		if x.MemoryHostUsedMiB > 0 {
			used = strconv.FormatInt(x.MemoryHostUsedMiB, 10)
		}
		reason := x.Reason
		if x.Drain != nil {
			reason = "drained " + drainWords(*x.Drain)
		}
		t.row(x.ID, x.State, x.Hostname, fmt.Sprintf("%d/%d", x.CoresUsed, x.Cores),
			total, x.MemoryReservedMiB, x.MemoryMiB, x.MemoryUsedMiB, used, x.Executors, resourceWords(x), labelWords(x.Labels), reason)
	}
	return t.flush()
}

// resourceWords are the named resources as used/offered.
func resourceWords(x model.WorkerView) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
		words = append(words, fmt.Sprintf("%s=%d/%d", name, len(x.ResourcesUsed[name]), len(x.Resources[name])))
	}
	return strings.Join(words, ",")
}

func labelWords(labels map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, name+"="+labels[name])
	}
	return strings.Join(words, ",")
}
