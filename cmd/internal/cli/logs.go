package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// logFlags are what `hearth logs` was asked for.
type logFlags struct {
	cluster        clusterFlags
	follow         bool
	stdout, stderr bool
	tail           int64
}

func newLogs(s Streams) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what executors and drivers wrote",
		Long: "Prints the output of an executor (app-…/N), or of all executors of an application, each\n" +
			"under a heading, or of a driver (driver-…, its last attempt, or driver-…/N). Any master serves it: it is streamed from the worker. Standard output goes\n" +
			"to standard output, standard error to standard error.",
		Example: "  hearth logs -f app-20261130061500-0003/0\n  hearth logs --stderr app-20261130061500-0003",
		Args:    cobra.ExactArgs(1),
		RunE:    f.run(s, f.print),
	}
	f.bind(cmd)
	return cmd
}

func (f *logFlags) bind(cmd *cobra.Command) {
	f.cluster.bind(cmd)
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on until the executor has ended")
	cmd.Flags().BoolVar(&f.stdout, "stdout", false, "only standard output")
	cmd.Flags().BoolVar(&f.stderr, "stderr", false, "only standard error")
	cmd.Flags().Int64Var(&f.tail, "tail", 0, "begin this many bytes before the end (default: at the start)")
}

// run is a command that prints the output of one id: without an end if it
// follows it.
func (f *logFlags) run(s Streams, printed func(ctx context.Context, c *session, s Streams, id string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.cluster.connect(cmd, s)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		limited := f.cluster.bounded
		if f.follow {
			limited = f.cluster.patient
		}
		ctx, cancel := limited(cmd)
		defer cancel()
		err = printed(ctx, c, s, args[0])
		var coded *codedError
		if f.follow && !errors.As(err, &coded) && errors.Is(err, context.DeadlineExceeded) {
			return &codedError{code: exitTimeout, err: fmt.Errorf("%s has not ended within %s", args[0], f.cluster.timeout)}
		}
		return err
	}
}

func (f *logFlags) print(ctx context.Context, c *session, s Streams, id string) error {
	if f.tail < 0 {
		return usage("--tail %d: must not be negative", f.tail)
	}
	if model.IsDriver(model.AppID(id)) {
		return f.printDriver(ctx, c, s, id)
	}
	app, number, single := strings.Cut(id, "/")
	v, err := c.App(ctx, rpc.AppRequest{ID: app})
	if err != nil {
		return unanswered(err)
	}
	if single {
		ref, err := model.ParseExecutorRef(string(v.ID) + "/" + number)
		if err != nil {
			return usage("%w", err)
		}
		return f.executor(ctx, c, s, ref)
	}
	if f.follow && len(v.Executors) > 1 {
		return usage("application %s has %d executors: follow one of them, %s/N", v.ID, len(v.Executors), v.ID)
	}
	for _, e := range v.Executors {
		ref := model.ExecutorRef{App: e.App, Executor: e.ID}
		if len(v.Executors) > 1 {
			_, _ = fmt.Fprintf(s.Out, "==> %s on %s, %s <==\n", ref, e.Worker, e.State)
		}
		if err := f.executor(ctx, c, s, ref); err != nil {
			if len(v.Executors) == 1 || ctx.Err() != nil {
				return err
			}
			_, _ = fmt.Fprintf(s.Err, "hearth: %v\n", err)
		}
	}
	return nil
}

// executor prints the wanted streams: one after the other, or both at once
// when following.
func (f *logFlags) executor(ctx context.Context, c *session, s Streams, ref model.ExecutorRef) error {
	both := f.stdout == f.stderr
	streams := map[rpc.LogStream]io.Writer{}
	if f.stdout || both {
		streams[rpc.LogStdout] = s.Out
	}
	if f.stderr || both {
		streams[rpc.LogStderr] = s.Err
	}
	if !f.follow {
		for _, name := range []rpc.LogStream{rpc.LogStdout, rpc.LogStderr} {
			if w := streams[name]; w != nil {
				if err := f.stream(ctx, c, ref, name, w); err != nil {
					return err
				}
			}
		}
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	for name, w := range streams {
		g.Go(func() error { return f.stream(gctx, c, ref, name, &lockedWriter{mu: &mu, w: w}) })
	}
	return g.Wait()
}

func (f *logFlags) stream(ctx context.Context, c *session, ref model.ExecutorRef, name rpc.LogStream, w io.Writer) error {
	req := rpc.LogRequest{Ref: ref, Stream: name, Offset: -f.tail, Follow: f.follow}
	return c.ReadLog(ctx, req, func(chunk rpc.LogChunk) error {
		_, err := w.Write(chunk.Data)
		return err
	})
}

// lockedWriter keeps pieces of two streams whole on one terminal.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
