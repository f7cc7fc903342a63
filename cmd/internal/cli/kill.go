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
		return killAll(ctx, c, args, reasonOr(reason), findVictim)
	})
}

// victim is something that is to be ended, by its whole id.
type victim struct {
	id  string
	end func(ctx context.Context, why string) error
}

// killAll ends what ids name. All of them are found before the first one is ended:
// a mistake ends nothing.
func killAll(ctx context.Context, c *session, ids []string, why string, find func(context.Context, *session, string) (victim, error)) (any, func(io.Writer) error, error) {
	victims := make([]victim, 0, len(ids))
	for _, id := range ids {
		v, err := find(ctx, c, id)
		if err != nil {
			return nil, nil, err
		}
		victims = append(victims, v)
	}
	names := make([]string, 0, len(victims))
	for _, v := range victims {
		if err := v.end(ctx, why); err != nil {
			if len(names) > 0 {
				err = fmt.Errorf("%w; ended before that: %s", err, strings.Join(names, ", "))
			}
			return nil, nil, err
		}
		names = append(names, v.id)
	}
	return done("ended %s", strings.Join(names, ", "))
}

// findVictim finds what an id names: an application, an executor, or a driver.
func findVictim(ctx context.Context, c *session, id string) (victim, error) {
	if model.IsDriver(model.AppID(id)) {
		return findDriver(ctx, c, id)
	}
	if err := named(id); err != nil {
		return victim{}, err
	}
	app, number, single := strings.Cut(id, "/")
	v, err := c.App(ctx, rpc.AppRequest{ID: app})
	if err != nil {
		return victim{}, err
	}
	if !single {
		return victim{id: string(v.ID), end: func(ctx context.Context, why string) error { return c.KillApp(ctx, v.ID, why) }}, nil
	}
	ref, err := model.ParseExecutorRef(string(v.ID) + "/" + number)
	if err != nil {
		return victim{}, usage("%w", err)
	}
	for _, e := range v.Executors {
		if e.ID != ref.Executor {
			continue
		}
		if e.Terminal {
			return victim{}, fmt.Errorf("executor %s: %w as %s", ref, model.ErrEnded, e.State)
		}
		return victim{id: ref.String(), end: func(ctx context.Context, why string) error {
			return c.KillExecutors(ctx, rpc.KillExecutorsRequest{App: ref.App, Executors: []model.ExecutorID{ref.Executor}, Reason: why})
		}}, nil
	}
	return victim{}, fmt.Errorf("%w: executor %s", model.ErrNotFound, ref)
}

// named refuses a prefix that says nothing but the kind: what happens to be alone at
// the moment is not what somebody meant to end.
func named(id string) error {
	if !strings.ContainsAny(id, "0123456789") {
		return usage("%q names nothing in particular: give more of the id of what is to be ended", id)
	}
	return nil
}
