package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// maxLogRefusals bounds how often in a row masters may answer that a log cannot
// be had now before ReadLog gives up: its worker is then gone, not a master.
const maxLogRefusals = 5

// ReadLog streams a log through any master and calls w for each piece, in
// order and without gaps: after a failure it resumes at the next byte, through
// another master. It blocks until the end of the log; with req.Follow until the
// executor has ended. An error of w ends it at once.
func (c *Client) ReadLog(ctx context.Context, req rpc.LogRequest, w func(rpc.LogChunk) error) error {
	what := fmt.Sprintf("read %s of %s", req.Stream, req.Ref)
	t := tally{what: what, readOnly: true}
	refusals := 0
	from, asked := c.reader, false
	for {
		addr := from.Next()
		got := false
		var werr error
		err := c.readLogOnce(ctx, addr, req, func(chunk rpc.LogChunk) error {
			got = true
			req.Offset = chunk.Offset + int64(len(chunk.Data))
			werr = w(chunk)
			return werr
		})
		switch {
		case werr != nil:
			return werr
		case err == nil:
			from.Reached(addr)
			return nil
		case errors.Is(err, model.ErrNotFound) && !asked && c.leaderKnows(ctx, string(req.Ref.App)):
			from, asked = c.leader, true // the replica lags
			continue
		case judge(err) == final:
			from.Reached(addr)
			return t.finalError(err)
		}
		t.note(err, judge(err))
		if got {
			refusals = 0
		}
		if rpc.Answered(err) && errors.Is(err, model.ErrUnavailable) {
			if refusals++; refusals >= maxLogRefusals {
				return t.finalError(err)
			}
		}
		from.Failed(addr, err)
		if werr := from.Wait(ctx); werr != nil {
			return t.endedError(werr)
		}
	}
}

func (c *Client) readLogOnce(ctx context.Context, addr string, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	conn, err := c.conn(addr)
	if err != nil {
		return err
	}
	return rpc.ClusterClient(conn).ReadLog(ctx, req, send)
}

// pause waits a moment between questions to masters that answered.
func (c *Client) pause(ctx context.Context, what string) error {
	t := time.NewTimer(RetryMax / 2)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", what, model.ErrUnavailable, ctx.Err())
	}
}
