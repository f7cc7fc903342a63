package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

// Times after which submit says that nothing is placed yet, and how long it
// waits to be told why.
const (
	firstNotice  = 2 * time.Second
	nextNotice   = 10 * time.Second
	reasonWithin = time.Second
)

// waiter is the part of a client that tells what becomes of an application.
type waiter interface {
	WaitApp(ctx context.Context, app model.AppID, after uint64) (model.AppView, error)
	Why(ctx context.Context, id string) (model.Why, error)
}

// look asks for something newer than after, and says what it is, of which change, and whether it is what is waited for.
type look[V any] func(ctx context.Context, after uint64) (v V, change uint64, done bool, err error)

// awaitView looks until that is done. While it waits it says on w why, and for how long; state is what id is in meanwhile.
func awaitView[V any](ctx context.Context, c waiter, w io.Writer, id model.AppID, state string, next look[V]) (V, error) {
	started := time.Now()
	notice := started.Add(firstNotice)
	var after uint64
	for {
		wctx, cancel := context.WithDeadline(ctx, notice)
		v, change, done, err := next(wctx, after)
		due := wctx.Err() != nil
		cancel()
		switch {
		case err == nil && done:
			return v, nil
		case err == nil:
			after = change
		case ctx.Err() != nil:
			return v, ctx.Err()
		case !due:
			return v, err
		}
		if !due {
			continue
		}
		notice = time.Now().Add(nextNotice)
		_, _ = fmt.Fprintf(w, "hearth: %s for %s: %s\n", state, time.Since(started).Round(time.Second), reasonFor(ctx, c, id))
	}
}

// awaitPlacement returns when something is placed or the application has
// ended.
func awaitPlacement(ctx context.Context, c waiter, w io.Writer, app model.AppID) (model.AppView, error) {
	return awaitView(ctx, c, w, app, fmt.Sprintf("application %s is WAITING", app), func(ctx context.Context, after uint64) (model.AppView, uint64, bool, error) {
		v, err := c.WaitApp(ctx, app, after)
		return v, v.ChangeIndex, v.Terminal || v.StartedAt != "", err
	})
}

// reasonFor asks why an application waits.
func reasonFor(ctx context.Context, c waiter, app model.AppID) string {
	ctx, cancel := context.WithTimeout(ctx, reasonWithin)
	defer cancel()
	v, err := c.Why(ctx, string(app))
	switch {
	case err != nil:
		return "no master could say why: " + err.Error()
	case v.Never:
		return "it can't ever be placed as things are: " + v.Text
	}
	return whyText(v)
}

// awaitEnd is awaitPlacement and then the wait for the end.
func awaitEnd(ctx context.Context, c *session, w io.Writer, app model.AppID) (model.AppView, error) {
	v, err := awaitPlacement(ctx, c, w, app)
	if err != nil || v.Terminal {
		return v, err
	}
	return c.WaitEnded(ctx, app)
}

// submission is something that is submitted and then waited for as far as its flags want.
type submission[V any] struct {
	kind, kill string // of what, and the command that ends it
	submit     func(ctx context.Context, c *session) (id string, err error)
	await      func(ctx context.Context, c *session, id string) (v V, ended bool, err error)
	code       func(w io.Writer, v V) error // how it ended
}

// run submits it. wait: until its end, with the exit code of the work.
func (x submission[V]) run(cmd *cobra.Command, s Streams, cluster *clusterFlags, out output, wait bool) error {
	c, err := cluster.connect(cmd, s)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, done := cluster.patient(cmd)
	defer done()
	rctx, cancel := context.WithTimeout(ctx, cluster.timeout)
	defer cancel()
	id, err := x.submit(rctx, c)
	if err != nil {
		return faultCode(wait, err)
	}
	if out.format == formatTable {
		_, _ = fmt.Fprintln(s.Out, id)
	}
	v, ended, err := x.await(ctx, c, id)
	if err != nil {
		return waitedFor(err, wait, cluster.timeout, x.kind+" "+id, x.kill+" "+id)
	}
	if out.format == formatJSON {
		if err := printJSON(s.Out, v); err != nil {
			return err
		}
	}
	if wait || ended {
		return x.code(s.Err, v)
	}
	return nil
}
