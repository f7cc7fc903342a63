package executor

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hearthd/hearth/model"
)

// capture keeps one output stream of a task: the first model.MaxTaskOutput
// bytes in memory and, once there are more, all of them in a file. It never
// fails a write, so that a full disk does not block or kill the task; what was
// lost is told by err. Written by one goroutine and read after it has ended.
type capture struct {
	path  string // of the file, created when needed
	head  []byte
	total int64
	file  *os.File
	err   error // why the file lacks something
}

// Write takes everything.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	if c.file == nil && c.err == nil && len(c.head)+n > model.MaxTaskOutput {
		c.spill()
	}
	if room := model.MaxTaskOutput - len(c.head); room > 0 {
		c.head = append(c.head, p[:min(room, n)]...)
	}
	if c.file != nil && c.err == nil {
		switch {
		case c.total+int64(n) > MaxSpillBytes:
			c.err = fmt.Errorf("%w: only the first %d bytes were kept", model.ErrTooLarge, c.total)
		default:
			if _, err := c.file.Write(p); err != nil {
				c.err = fmt.Errorf("spill output: %w", err)
			}
		}
	}
	c.total += int64(n)
	return n, nil
}

func (c *capture) spill() {
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		c.err = fmt.Errorf("spill output: %w", err)
		return
	}
	c.file = f
	if _, err := f.Write(c.head); err != nil {
		c.err = fmt.Errorf("spill output: %w", err)
	}
}

// readAt returns up to limit bytes from an offset; none at the end.
func (c *capture) readAt(offset int64, limit int) ([]byte, error) {
	if offset < 0 {
		return nil, fmt.Errorf("%w: offset %d", model.ErrInvalid, offset)
	}
	if limit <= 0 || limit > MaxChunkBytes {
		limit = MaxChunkBytes
	}
	if offset < int64(len(c.head)) {
		return c.head[offset:min(offset+int64(limit), int64(len(c.head)))], nil
	}
	if offset >= c.total {
		return nil, nil
	}
	if c.file == nil {
		return nil, c.err
	}
	buf := make([]byte, limit)
	n, err := c.file.ReadAt(buf, offset)
	switch {
	case n > 0, errors.Is(err, io.EOF) && c.err == nil:
		return buf[:n], nil
	case c.err != nil: // the rest was never written
		return nil, c.err
	}
	return nil, fmt.Errorf("read spilled output: %w", err)
}

// discard removes the file. Idempotent.
func (c *capture) discard() error {
	if c.file == nil {
		return nil
	}
	err := errors.Join(c.file.Close(), os.Remove(c.path))
	c.file = nil
	if err != nil {
		return fmt.Errorf("remove spilled output: %w", err)
	}
	return nil
}
