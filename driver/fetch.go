package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
)

// fetchJob is a result whose output is to be fetched.
type fetchJob struct {
	res model.TaskResult
	tag any
}

// fetchList holds the jobs of one stream, at most slots + MaxFetching. Safe
// for concurrent use.
type fetchList struct {
	mu   sync.Mutex
	jobs []fetchJob
	wake chan struct{}
}

func (l *fetchList) push(j fetchJob) {
	l.mu.Lock()
	l.jobs = append(l.jobs, j)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *fetchList) pop() (fetchJob, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.jobs) == 0 {
		return fetchJob{}, false
	}
	j := l.jobs[0]
	l.jobs = l.jobs[1:]
	return j, true
}

// fetchLoop fetches the output of one result after the other until the stream
// ends.
func (d *Driver) fetchLoop(ctx context.Context, c *conn) {
	for {
		j, ok := c.fetch.pop()
		if !ok {
			select {
			case <-c.fetch.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		msg := fetchedMsg{c: c, res: j.res}
		var errs [2]error
		msg.files[0], errs[0] = d.fetchStream(ctx, c, j, false)
		msg.files[1], errs[1] = d.fetchStream(ctx, c, j, true)
		msg.err = errors.Join(errs[:]...)
		// After the stream's end the result comes again, or the task runs
		// again.
		if ctx.Err() != nil || !d.mail.put(ctx, msg) {
			closeFiles(msg.files)
		}
	}
}

func closeFiles(files [2]io.WriteCloser) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nobody wants what is in it
		}
	}
}

// fetchStream copies one stream to what Config.Spill opens for it. What could
// be had comes back even with an error.
func (d *Driver) fetchStream(ctx context.Context, c *conn, j fetchJob, stderr bool) (io.WriteCloser, error) {
	name, head, total := "stdout", j.res.Stdout, j.res.StdoutBytes
	if stderr {
		name, head, total = "stderr", j.res.Stderr, j.res.StderrBytes
	}
	if total <= int64(len(head)) {
		return nil, nil
	}
	w, err := d.cfg.Spill(Spill{Task: j.res.ID, Attempt: j.res.Attempt, Tag: j.tag, Stderr: stderr, Bytes: total})
	if err != nil {
		return nil, fmt.Errorf("keep %s of task %d: %w", name, j.res.ID, err)
	}
	if _, err = w.Write(head); err == nil {
		from := model.OutputFetch{ID: j.res.ID, Stderr: stderr, Offset: int64(len(head)), Limit: fetchBytes}
		err = c.copyOutput(ctx, w, from, total)
	}
	if err != nil {
		return w, fmt.Errorf("fetch %s of task %d: %w", name, j.res.ID, err)
	}
	return w, nil
}

// copyOutput asks for piece after piece from f.Offset on.
func (c *conn) copyOutput(ctx context.Context, w io.Writer, f model.OutputFetch, total int64) error {
	t := time.NewTimer(fetchTimeout)
	defer t.Stop()
	for f.Offset < total {
		ask := f
		c.out.put(func(o *outbox) { o.fetch = &ask })
		t.Reset(fetchTimeout)
		chunk, err := c.chunk(ctx, f, t.C)
		if err != nil {
			return err
		}
		if chunk.Error != "" {
			return fmt.Errorf("%w: the executor says: %s", model.ErrUnavailable, chunk.Error)
		}
		if len(chunk.Data) == 0 {
			return fmt.Errorf("%w: the executor kept %d of %d bytes", model.ErrTooLarge, f.Offset, total)
		}
		if _, err := w.Write(chunk.Data); err != nil {
			return err
		}
		f.Offset += int64(len(chunk.Data))
	}
	return nil
}

// chunk waits for the answer to f.
func (c *conn) chunk(ctx context.Context, f model.OutputFetch, timeout <-chan time.Time) (model.OutputChunk, error) {
	for {
		select {
		case got := <-c.chunks:
			if got.ID == f.ID && got.Stderr == f.Stderr && got.Offset == f.Offset {
				return got, nil
			}
			// The late answer to a question that was given up.
		case <-timeout:
			return model.OutputChunk{}, fmt.Errorf("%w: no answer within %s", model.ErrUnavailable, fetchTimeout)
		case <-ctx.Done():
			return model.OutputChunk{}, context.Cause(ctx)
		}
	}
}
