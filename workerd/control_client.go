//go:build linux

package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hearthd/hearth/internal/unixsocket"
	"github.com/hearthd/hearth/model"
)

// ErrNotRunning is in the error of a Control's methods when no worker runs on the data directory.
var ErrNotRunning = errors.New("no worker runs on this data directory")

// Control talks to the worker that runs on a data directory of this machine. Its methods block until
// the worker has answered or ctx ends; errors match model.ErrNoLeader, ErrRefused, ErrConflict and
// ErrInvalid as the worker's did. Safe for concurrent use.
type Control struct{ dataDir string }

// NewControl returns a Control. It touches nothing.
func NewControl(dataDir string) Control { return Control{dataDir: dataDir} }

// Status describes the worker.
func (c Control) Status(ctx context.Context) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opStatus})
}

// Handover says how a planned restart goes.
type Handover struct {
	// Window is how long leader and keeper wait for the next start; 0 means DefaultRestartWindow.
	Window time.Duration
	// Force goes ahead without a leader.
	Force bool
}

// Restart has the worker begin anew while its executors run on. When it returns nil the leader and the
// keeper wait for the next start and the present one is about to end. The Status is of before.
func (c Control) Restart(ctx context.Context, h Handover) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opRestart, WindowMilli: h.Window.Milliseconds(), Force: h.Force})
}

// StopKeeping is Restart for a worker that somebody else starts again within the window.
func (c Control) StopKeeping(ctx context.Context, h Handover) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opKeep, WindowMilli: h.Window.Milliseconds(), Force: h.Force})
}

// Stop has the worker stop gracefully, as SIGTERM does. It returns when that has begun.
func (c Control) Stop(ctx context.Context) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opStop})
}

// Decommission has the worker ask the leader to take it out of service (ADR 0036), and returns once
// that is committed. The Status is of before.
func (c Control) Decommission(ctx context.Context, t model.DrainTerms) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opDecommission, DeadlineMilli: t.DeadlineMilli, IdleOnly: t.IdleOnly, Reason: t.Reason})
}

// Rejoin has the worker give up its cluster, which must be the one named, for that of its masters.
func (c Control) Rejoin(ctx context.Context, cluster string) (Status, error) {
	return c.ask(ctx, controlRequest{Op: opRejoin, Cluster: cluster})
}

func (c Control) ask(ctx context.Context, req controlRequest) (Status, error) {
	rep, err := c.exchange(ctx, req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return Status{}, fmt.Errorf("%w: %s", ErrNotRunning, c.dataDir)
	case err != nil:
		return Status{}, fmt.Errorf("ask the worker in %s: %w", c.dataDir, err)
	case rep.Version != controlVersion:
		return Status{}, fmt.Errorf("the worker in %s speaks version %d, this command speaks %d", c.dataDir, rep.Version, controlVersion)
	case rep.Error != nil:
		return Status{}, rep.Error
	case rep.Status == nil:
		return Status{}, fmt.Errorf("the worker in %s gave no answer: %w", c.dataDir, model.ErrUnavailable)
	}
	return *rep.Status, nil
}

func (c Control) exchange(ctx context.Context, req controlRequest) (rep controlReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, controlBound+2*controlReadTimeout)
	defer cancel()
	conn, err := unixsocket.Dial(ctx, filepath.Join(c.dataDir, controlFile))
	if err != nil {
		return rep, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req.Version = controlVersion
	b, err := json.Marshal(req)
	if err != nil {
		return rep, err
	}
	if _, err = conn.Write(b); err == nil {
		err = conn.CloseWrite()
	}
	if err == nil {
		err = readControl(conn, maxControlReply, &rep)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return rep, err
}
