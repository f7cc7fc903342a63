package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

func newStatus(s Streams) *cobra.Command {
	var flags clusterFlags
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show masters, workers and running applications",
		Long: "Shows the cluster as the master that answers sees it, with its lag behind the leader.\n" +
			"Without a leader the last known state is shown with its age, and the exit code is 3.",
		Example: "  hearth status --masters m1:7070,m2:7070,m3:7070",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			v, err := c.Status(ctx)
			if err != nil {
				return err
			}
			v.Masters, v.Workers, v.Apps, v.Alarms = orEmpty(v.Masters), orEmpty(v.Workers), orEmpty(v.Apps), orEmpty(v.Alarms)
			if err := out.print(s.Out, v, func(w io.Writer) error { return statusTable(w, v) }); err != nil {
				return err
			}
			return leaderless(s.Err, v.Staleness)
		},
	}
	flags.bind(cmd)
	out.bind(cmd)
	return cmd
}

// leaderless warns of a view without a leader and turns it into exit code 3.
func leaderless(w io.Writer, st model.Staleness) error {
	if st.Leader != "" {
		return nil
	}
	age := (time.Duration(st.LeaderlessFor) * time.Millisecond).Round(100 * time.Millisecond)
	_, _ = fmt.Fprintf(w, "hearth: no leader since %s; shown is the state of %s at index %d, which may be stale\n", age, st.Master, st.AppliedIndex)
	return exit(exitNoLeader)
}

func statusTable(w io.Writer, v model.ClusterView) error {
	_, _ = fmt.Fprintf(w, "cluster %s, epoch %d, answered by %s at index %d, term %d, lag %d ms\n",
		orDash(v.Cluster), v.Epoch, v.Staleness.Master, v.Staleness.AppliedIndex, v.Staleness.Term, v.Staleness.LagMilli)
	if text := v.Access.Text(); text != "" {
		_, _ = fmt.Fprintf(w, "access: %s\n", text)
	}
	_, _ = fmt.Fprintln(w)
	if err := mastersTable(w, v.Masters); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	if err := workersTable(w, v.Workers); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	if err := appsTable(w, v.Apps); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "\n%d ended applications (hearth apps --all)\n", v.EndedApps)
	if len(v.Alarms) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "ALARM", "ABOUT", "SINCE", "WHAT")
	for _, a := range v.Alarms {
		t.row(a.Kind, a.Subject, a.Since, a.Text)
	}
	return t.flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func mastersTable(w io.Writer, masters []model.MasterView) error {
	t := newTable(w, "MASTER", "ROLE", "VOTER", "ALIVE", "LAST INDEX", "GRPC", "RAFT", "SERF", "HTTP")
	for _, m := range masters {
		last := "" // only the leader knows the others'
		if m.LastIndex > 0 {
			last = fmt.Sprint(m.LastIndex)
		}
		t.row(m.ID, m.Role, m.Voter, m.Alive, last, m.GRPCAddr, m.RaftAddr, m.SerfAddr, m.HTTPAddr)
	}
	return t.flush()
}

func workersTable(w io.Writer, workers []model.WorkerView) error {
	t := newTable(w, "WORKER", "STATE", "HOST", "GRPC", "CORES", "MEMORY MIB", "EXECUTORS", "REASON")
	for _, x := range workers {
		t.row(x.ID, x.State, x.Hostname, x.GRPCAddr,
			fmt.Sprintf("%d/%d", x.CoresUsed, x.Cores), fmt.Sprintf("%d/%d", x.MemoryUsedMiB, x.MemoryMiB), x.Executors, x.Reason)
	}
	return t.flush()
}

func appsTable(w io.Writer, apps []model.AppView) error {
	t := newTable(w, "APPLICATION", "NAME", "USER", "STATE", "CORES", "RUNNING", "LIVE", "SUBMITTED", "REASON")
	for _, a := range apps {
		t.row(a.ID, a.Name, a.User, a.State, a.Cores, a.Running, a.Live, a.SubmittedAt, a.Reason)
	}
	return t.flush()
}
