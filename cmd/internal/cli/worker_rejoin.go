package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// askMasters bounds the question for the masters' cluster.
const askMasters = 5 * time.Second

func newWorkerRejoin(s Streams) *cobra.Command {
	var flags workerFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "rejoin",
		Short: "Give up the worker's cluster for that of its masters",
		Long: "A worker obeys the cluster that it has once obeyed, and lets its executors run when its\n" +
			"masters are of another one: they may have lost their data, or the worker may have been given\n" +
			"wrong addresses. When the old cluster is gone for good, this command makes the worker on\n" +
			"--data-dir forget it. It then joins the cluster of its masters, whose leader ends every\n" +
			"executor that it does not know.\n\n" +
			"Both clusters are shown and, unless --yes is given, a confirmation is asked for. It works\n" +
			"on a worker that runs and on one that does not.",
		Example: "  hearth worker rejoin --data-dir /var/lib/hearth",
		Args:    cobra.NoArgs,
	}
	flags.bind(cmd, "masters", "tls-dir", "tls-ca-file", "tls-cert-file", "tls-key-file")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		conf, err := flags.load(cmd, s)
		if err != nil {
			return err
		}
		agree := func(own, theirs string, running int) error { return confirmRejoin(s, yes, own, theirs, running) }
		id, err := rejoinRunning(cmd.Context(), workerd.NewControl(conf.DataDir), agree)
		if errors.Is(err, workerd.ErrNotRunning) {
			id, err = rejoinStopped(cmd.Context(), conf, agree)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "gave up cluster %s\n", id)
		return err
	}
	return cmd
}

// rejoinRunning speaks to the worker itself, which knows who has refused it.
func rejoinRunning(ctx context.Context, control workerd.Control, agree func(own, theirs string, running int) error) (string, error) {
	v, err := control.Status(ctx)
	switch {
	case err != nil:
		return "", err
	case v.Cluster == "":
		return "", fmt.Errorf("%w: the worker belongs to no cluster: it joins that of its masters by itself", model.ErrRefused)
	case v.Leader != "":
		return "", fmt.Errorf("%w: the worker has a session with its cluster %s: there is nothing to rejoin", model.ErrRefused, v.Cluster)
	case v.ForeignCluster == "":
		return "", fmt.Errorf("%w: no master of another cluster has refused the worker of cluster %s: it waits for its own masters", model.ErrRefused, v.Cluster)
	}
	if err := agree(v.Cluster, v.ForeignCluster, len(live(v))); err != nil {
		return "", err
	}
	_, err = control.Rejoin(ctx, v.Cluster)
	return v.Cluster, err
}

// rejoinStopped changes what the next start reads.
func rejoinStopped(ctx context.Context, conf config.WorkerConfig, agree func(own, theirs string, running int) error) (id string, err error) {
	st, err := workerd.OpenStopped(conf.DataDir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	own := st.Cluster()
	if own.IsZero() {
		return "", fmt.Errorf("%w: the worker belongs to no cluster: it joins that of its masters by itself", model.ErrRefused)
	}
	theirs, err := clusterOf(ctx, conf, st.Masters)
	if err != nil {
		theirs = "unknown (" + err.Error() + ")"
	}
	if theirs == own.ID {
		return "", fmt.Errorf("%w: the masters are of the worker's own cluster %s: there is nothing to rejoin", model.ErrRefused, own.ID)
	}
	if err := agree(own.ID, theirs, 0); err != nil {
		return "", err
	}
	return own.ID, st.Forget()
}

// clusterOf asks the masters that are configured or were remembered.
func clusterOf(ctx context.Context, conf config.WorkerConfig, remembered []string) (string, error) {
	masters := append(slices.Clone(conf.Worker.Masters), remembered...)
	source, err := tlsSource(conf.TLS)
	if err != nil {
		return "", err
	}
	c, err := client.New(client.Config{Masters: masters, TLS: source.Client(), Principal: userName()})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, askMasters)
	defer cancel()
	v, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	return v.Cluster, nil
}

// confirmRejoin shows what is given up for what, and asks.
func confirmRejoin(s Streams, yes bool, own, theirs string, running int) error {
	_, _ = fmt.Fprintf(s.Err, "the worker belongs to cluster %s\nits masters are of cluster  %s\n", own, theirs)
	if running > 0 {
		_, _ = fmt.Fprintf(s.Err, "running here for the former: %s; the latter ends what it does not know\n", executors(running))
	}
	return confirm(s, yes, "worker rejoin", "give up cluster "+own+"?")
}
