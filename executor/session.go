package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Why a session or the executor ends.
var (
	errStopped    = errors.New("the driver says stop")
	errSilent     = errors.New("the driver is silent")
	errDriverGone = errors.New("the driver is gone")
)

// refused reports whether the driver will give the same answer next time.
func refused(err error) bool {
	for _, target := range []error{
		model.ErrUnauthenticated, model.ErrRefused, model.ErrNotFound, model.ErrEnded,
		model.ErrInvalid, errTooMany,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// follow keeps a session with the driver until there is a reason to end.
func (x *executor) follow(ctx context.Context, conn *rpc.Conn) error {
	pause, told := BackoffFirst, false
	for {
		welcomed, err := x.session(ctx, conn)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx) //nolint:wrapcheck // our own, or the caller's
		case errors.Is(err, errStopped):
			return err
		case refused(err):
			return fmt.Errorf("register with the driver at %s: %w", x.cfg.DriverAddr, err)
		}
		switch {
		case welcomed:
			pause, told = BackoffFirst, false
			x.logger.Warn("the stream to the driver broke", "driver", x.cfg.DriverAddr, "err", err)
		case !told: // once: its owner has to know, above all of a name that does not resolve here
			told = true
			x.logger.Warn("the driver was not reached, trying on", "driver", x.cfg.DriverAddr, "err", err)
		default:
			x.logger.Debug("the driver was not reached", "driver", x.cfg.DriverAddr, "err", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
		pause = min(2*pause, BackoffMax)
	}
}

// session runs one stream to the driver and returns why it ended.
func (x *executor) session(parent context.Context, conn *rpc.Conn) (welcomed bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	silence := time.AfterFunc(x.cfg.timing.silence, func() { cancel(errSilent) })
	defer silence.Stop()

	s, err := rpc.OpenExecutorSession(ctx, conn)
	if err != nil {
		return false, fmt.Errorf("open the stream: %w", err)
	}
	defer s.Close() //nolint:errcheck // the stream has ended for a reason of its own
	err = s.Send(model.ExecutorUp{Hello: &model.ExecutorHello{
		App: x.cfg.App, Executor: x.cfg.Executor, Secret: x.cfg.Secret,
		Cores: x.cfg.Cores, Host: x.cfg.Host, PID: os.Getpid(), Running: x.tasks.ids(), Holds: MaxHeldTasks,
		Queues: true,
	}})
	if err != nil {
		// gRPC says only EOF here; Recv has the reason.
		if _, reason := s.Recv(); reason != nil {
			err = reason
		}
		return false, causeOf(ctx, fmt.Errorf("say hello: %w", err))
	}
	heard := func() {
		silence.Reset(x.cfg.timing.silence)
		x.heard()
	}
	welcome, err := awaitWelcome(s, heard)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	x.tasks.adopt(welcome, x.cfg.Cores)
	x.logger.Info("registered with the driver", "driver", x.cfg.DriverAddr, "adopted", len(welcome.Adopted))

	fetches := make(chan model.OutputFetch, maxPendingFetches)
	read := make(chan error, 1)
	go func() { read <- x.readLoop(ctx, s, heard, fetches) }()
	err = x.writeLoop(ctx, s, beatInterval(welcome), fetches, read)
	cancel(err) // ends the reader
	_ = s.Close()
	if readErr := <-read; errors.Is(err, errReaderEnded) || refused(readErr) || errors.Is(readErr, errStopped) {
		err = readErr
	}
	return true, causeOf(ctx, err)
}

// awaitWelcome reads the driver's verdict. Beats before it say that the driver
// waits for the leader's word on this executor (ADR 0022).
func awaitWelcome(s rpc.ExecutorSessionClient, heard func()) (*model.ExecutorWelcome, error) {
	for {
		m, err := s.Recv()
		switch {
		case err != nil:
			return nil, fmt.Errorf("wait for welcome: %w", err)
		case m.Welcome != nil:
			heard()
			return m.Welcome, nil
		case m.BeatAck == nil:
			return nil, fmt.Errorf("%w: the driver's first message is neither a welcome nor a beat", model.ErrInvalid)
		}
		heard()
	}
}

// causeOf prefers why we ended the stream ourselves over what gRPC makes of it.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) || errors.Is(cause, errDriverGone) {
		return cause //nolint:wrapcheck // our own
	}
	return err
}

func beatInterval(w *model.ExecutorWelcome) time.Duration {
	if w.BeatMilli <= 0 {
		return DefaultBeat
	}
	if w.BeatMilli > MaxBeat.Milliseconds() {
		return MaxBeat
	}
	return max(time.Duration(w.BeatMilli)*time.Millisecond, MinBeat)
}

// errReaderEnded tells writeLoop's caller to look at the reader's error.
var errReaderEnded = errors.New("the reader has ended")

// readLoop takes messages from the driver until the stream ends.
func (x *executor) readLoop(ctx context.Context, s rpc.ExecutorSessionClient, heard func(), fetches chan<- model.OutputFetch) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return fmt.Errorf("receive from the driver: %w", err)
		}
		heard()
		// An acknowledgement of an old attempt comes before a new attempt of the
		// same task, a task before its cancellation.
		if len(m.Ack) > 0 {
			x.tasks.ack(m.Ack)
		}
		if len(m.Tasks) > 0 {
			if err := x.tasks.add(m.Tasks); err != nil {
				return err
			}
		}
		if len(m.Cancel) > 0 {
			x.tasks.cancel(m.Cancel)
		}
		if len(m.Recall) > 0 {
			x.tasks.recall(m.Recall)
		}
		switch {
		case m.Stop:
			return errStopped
		case m.Fetch != nil:
			select {
			case fetches <- *m.Fetch:
			case <-ctx.Done():
				return context.Cause(ctx) //nolint:wrapcheck // our own
			}
		}
	}
}

// writeLoop is the only sender of a session after Hello.
func (x *executor) writeLoop(
	ctx context.Context, s rpc.ExecutorSessionClient, beat time.Duration,
	fetches <-chan model.OutputFetch, read chan error,
) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	number := uint64(0)
	var frames rpc.Frames
	for {
		frames.Reset()
		var up model.ExecutorUp
		select {
		case <-ctx.Done():
			return context.Cause(ctx) //nolint:wrapcheck // our own, or the caller's
		case err := <-read:
			read <- err // for the caller
			return errReaderEnded
		case <-ticker.C:
			number++
			up.Beat = &model.Beat{Number: number}
		case f := <-fetches:
			chunk := x.tasks.fetch(f)
			up.Chunk = &chunk
		case <-x.tasks.ready:
			up.Lingering = x.tasks.unsent(&frames)
		}
		// A lingering slot first: the driver would take that of a result for free.
		if up.Beat != nil || up.Chunk != nil || up.Lingering != nil {
			if err := s.Send(up); err != nil {
				return fmt.Errorf("send to the driver: %w", err)
			}
		}
		if frames.Len() > 0 {
			if err := s.SendFrames(&frames); err != nil {
				return fmt.Errorf("send to the driver: %w", err)
			}
		}
	}
}
