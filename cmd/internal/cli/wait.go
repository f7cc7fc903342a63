package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func newWait(s Streams) *cobra.Command {
	return waiting(s, &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until an application has ended; exit with its code",
		Long: "Waits until the application has ended. The exit code is that of the work: 0 if all\n" +
			"succeeded, else that of the first failed executor (128+n for signal n), 130 killed by a\n" +
			"user, 124 not done within --timeout, 255 cluster fault.",
	}, "application", waitEnded, endedCode)
}

// waiting completes a command that waits for the end of one thing of a kind, which ended returns, and exits as code says
// of it.
func waiting[V any](s Streams, cmd *cobra.Command, kind string, ended func(context.Context, *session, string) (V, error), code func(io.Writer, V) error) *cobra.Command {
	var flags clusterFlags
	var out output
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		c, err := flags.connect(cmd, s)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		ctx, cancel := flags.patient(cmd)
		defer cancel()
		v, err := ended(ctx, c, args[0])
		if coded := (*codedError)(nil); errors.As(err, &coded) {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return &codedError{code: exitTimeout, err: fmt.Errorf("%s %s is not done within %s", kind, args[0], flags.timeout)}
		}
		if err != nil {
			return faultCode(!errors.Is(err, model.ErrNotFound), err)
		}
		if out.format == formatJSON {
			if err := printJSON(s.Out, v); err != nil {
				return err
			}
		}
		return code(s.Err, v)
	}
	flags.bind(cmd)
	cmd.Flags().Lookup("timeout").DefValue = "no limit"
	out.bind(cmd)
	return cmd
}

func waitEnded(ctx context.Context, c *session, id string) (model.AppView, error) {
	if model.IsDriver(model.AppID(id)) {
		return model.AppView{}, usage("%s is a driver: hearth driver wait %s", id, id)
	}
	v, err := c.App(ctx, rpc.AppRequest{ID: id})
	if err != nil || v.Terminal {
		return v, unanswered(err)
	}
	return c.WaitEnded(ctx, v.ID)
}

// unanswered keeps a question that no master has answered in time from being taken
// for work that is not done in time.
func unanswered(err error) error {
	if exitCode(err) == exitNoLeader {
		return &codedError{code: exitNoLeader, err: err}
	}
	return err
}
