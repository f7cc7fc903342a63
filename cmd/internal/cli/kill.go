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

func newKill(s Streams) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "End applications, drivers, or single executors",
		Long: "Ends the named applications, or drivers (driver-…), as KILLED: their processes get SIGTERM and after 10 s SIGKILL.\n" +
			"An executor (app-…/N) is ended alone; its application gets another one if it still wants it.",
		Example: "  hearth kill app-20261130061500-0003\n  hearth kill app-20261130061500-0003/2",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown with what was ended (default: who did it)")
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		why := reason
		if why == "" {
			why = "killed by " + orDash(userName())
		}
		for _, id := range args {
			if err := killOne(ctx, c, id, why); err != nil {
				return nil, nil, err
			}
		}
		return done("ended %s", strings.Join(args, ", "))
	})
}

func killOne(ctx context.Context, c *session, id, why string) error {
	if model.IsDriver(model.AppID(id)) {
		return killDriver(ctx, c, id, why)
	}
	app, number, single := strings.Cut(id, "/")
	v, err := c.App(ctx, rpc.AppRequest{ID: app})
	if err != nil {
		return err
	}
	if !single {
		return c.KillApp(ctx, v.ID, why)
	}
	ref, err := model.ParseExecutorRef(string(v.ID) + "/" + number)
	if err != nil {
		return usage("%w", err)
	}
	for _, e := range v.Executors {
		if e.ID != ref.Executor {
			continue
		}
		if e.Terminal {
			return fmt.Errorf("executor %s: %w as %s", ref, model.ErrEnded, e.State)
		}
		return c.KillExecutors(ctx, rpc.KillExecutorsRequest{App: ref.App, Executors: []model.ExecutorID{ref.Executor}, Reason: why})
	}
	return fmt.Errorf("%w: executor %s", model.ErrNotFound, ref)
}
