//go:build linux

package workerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/unixsocket"
	"github.com/hearthd/hearth/model"
)

// The control socket is how `hearth worker restart` and the like find the worker of a data
// directory. A connection carries one request and one reply, each a JSON object that ends with the
// stream. Only the worker's user and root may connect.

const (
	controlFile    = "control.sock"
	controlVersion = 1
)

// controlOp is what is asked for.
type controlOp string

const (
	opStatus  controlOp = "status"
	opRestart controlOp = "restart"
	opStop    controlOp = "stop"
	opKeep    controlOp = "keep" // stop, and let the executors run on
	opRejoin  controlOp = "rejoin"

	opDecommission controlOp = "decommission"
)

type controlRequest struct {
	Version int       `json:"version"`
	Op      controlOp `json:"op"`
	// WindowMilli and Force belong to restart and keep.
	WindowMilli int64 `json:"window_ms,omitempty"`
	Force       bool  `json:"force,omitempty"`
	// Cluster belongs to rejoin: the cluster that is to be given up.
	Cluster string `json:"cluster_id,omitempty"`
	// DeadlineMilli, IdleOnly and Reason belong to decommission.
	DeadlineMilli int64  `json:"deadline_ms,omitempty"`
	IdleOnly      bool   `json:"idle_only,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

type controlReply struct {
	Version int           `json:"version"`
	Error   *controlError `json:"error,omitempty"`
	// Status is how the worker was before anything was done.
	Status *Status `json:"status,omitempty"`
}

// controlError carries what a caller must be able to tell apart.
type controlError struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// controlCodes are the errors that keep their identity across the socket.
func controlCodes() map[string]error {
	return map[string]error{
		"no-leader": model.ErrNoLeader, "refused": model.ErrRefused, "conflict": model.ErrConflict,
		"invalid": model.ErrInvalid, "timeout": context.DeadlineExceeded,
	}
}

func newControlError(err error) *controlError {
	e := &controlError{Code: "failed", Text: err.Error()}
	for code, sentinel := range controlCodes() {
		if errors.Is(err, sentinel) {
			e.Code = code
		}
	}
	return e
}

// Error is the text of the original error.
func (e *controlError) Error() string { return e.Text }

// Unwrap returns the sentinel of the original error, nil if it had none.
func (e *controlError) Unwrap() error { return controlCodes()[e.Code] }

// openControl listens on the control socket. A worker on a simulated network has none: whoever waits
// on a real socket holds up virtual time.
func (w *Worker) openControl(_ context.Context, p *parts) error {
	if w.deps.Network != nil {
		return nil
	}
	l, err := unixsocket.Listen(filepath.Join(w.cfg.DataDir, controlFile))
	if err != nil {
		return err
	}
	p.control = l
	return nil
}

func closeControl(l net.Listener, dataDir string) error {
	if l == nil {
		return nil
	}
	err := os.Remove(filepath.Join(dataDir, controlFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, closed(l.Close()))
}

// controller answers on the control socket.
type controller struct {
	log      hclog.Logger
	listener net.Listener // nil: there is no socket
	agent    *agent
	check    func(context.Context) error // may be nil
}

// run answers until ctx ends; what is under way then gets its answer.
func (c *controller) run(ctx context.Context) error {
	if c.listener == nil {
		<-ctx.Done()
		return nil
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	slots := make(chan struct{}, maxControlConns)
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			c.log.Warn("control connection not accepted", "err", err)
			pause(ctx, backoffMax) // out of descriptors, most likely
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = conn.Close() // whoever asks sees that there was no answer
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			c.serve(context.WithoutCancel(ctx), conn)
		})
	}
}

// serve answers one request. Whatever the other side does, it ends within controlBound.
func (c *controller) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if err := unixsocket.CheckPeer(conn); err != nil {
		c.log.Warn("control connection refused", "err", err)
		return
	}
	_ = conn.SetDeadline(time.Now().Add(controlReadTimeout))
	req, err := readControlRequest(conn)
	var rep controlReply
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, controlBound)
		defer cancel()
		_ = conn.SetDeadline(time.Now().Add(controlBound + controlReadTimeout))
		rep.Status, err = c.handle(bounded, req)
	}
	if err != nil {
		rep.Status, rep.Error = nil, newControlError(err)
	}
	rep.Version = controlVersion
	b, err := json.Marshal(rep)
	if err == nil {
		_, err = conn.Write(b)
	}
	if err != nil {
		c.log.Debug("control request not answered", "err", err)
	}
}

func readControlRequest(r io.Reader) (controlRequest, error) {
	var req controlRequest
	if err := readControl(r, maxControlRequest, &req); err != nil {
		return req, fmt.Errorf("%w: control request: %w", model.ErrInvalid, err)
	}
	if req.Version != controlVersion {
		return req, fmt.Errorf("%w: control request of version %d, this worker speaks %d", model.ErrInvalid, req.Version, controlVersion)
	}
	return req, nil
}

// readControl fills into from the one JSON object that r holds until its end.
func readControl(r io.Reader, limit int64, into any) error {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(b)) > limit {
		return fmt.Errorf("more than %d bytes", limit)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the object")
	}
	return nil
}

func (c *controller) handle(ctx context.Context, req controlRequest) (*Status, error) {
	s, err := c.agent.status(ctx)
	if err != nil {
		return nil, err
	}
	s.Version = statusVersion
	switch req.Op {
	case opStatus:
		return &s, nil
	case opStop:
		return &s, c.agent.do(ctx, func() { c.agent.beginStop(time.Now()) }) //nolint:contextcheck // jobs outlive whoever asks for them, on purpose
	case opRestart, opKeep:
		return &s, c.handOver(ctx, req)
	case opRejoin:
		var rejoinErr error
		err := c.agent.do(ctx, func() { rejoinErr = c.agent.rejoin(req.Cluster) })
		return &s, errors.Join(err, rejoinErr)
	case opDecommission:
		return &s, c.agent.decommission(ctx, model.DrainTerms{Reason: req.Reason, DeadlineMilli: req.DeadlineMilli, IdleOnly: req.IdleOnly})
	}
	return nil, fmt.Errorf("%w: control request %q", model.ErrInvalid, req.Op)
}

// handOver returns once the keeper waits for the next start, or something is against it.
func (c *controller) handOver(ctx context.Context, req controlRequest) error {
	if req.WindowMilli < 0 || req.WindowMilli > MaxRestartWindow.Milliseconds() {
		return fmt.Errorf("%w: a window of %d ms, at most %d", model.ErrInvalid, req.WindowMilli, MaxRestartWindow.Milliseconds())
	}
	h := &handover{
		again: req.Op == opRestart, window: time.Duration(req.WindowMilli) * time.Millisecond, done: make(chan error, 1),
	}
	if h.window == 0 {
		h.window = DefaultRestartWindow
	}
	if h.again && c.check != nil {
		checking, cancel := context.WithTimeout(ctx, checkTimeout)
		err := c.check(checking)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: the next start would fail, nothing was changed: %w", model.ErrRefused, err)
		}
	}
	return c.agent.handOver(ctx, h, req.Force)
}
