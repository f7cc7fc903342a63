package raftnode

import (
	"io"
	"time"
)

// Observer is told what a replica does and how long it takes, for metrics. Its
// functions are called from the threads that do it: they must be quick and must
// not block. Any of them may be nil.
type Observer struct {
	// Committed: an entry that was proposed here, with that many commands, is
	// committed by a majority and applied here; or it failed, or what became of
	// it is not known.
	Committed func(commands int, took time.Duration, err error)
	// Snapshot: a snapshot was written, or could not be.
	Snapshot func(bytes int64, took time.Duration, err error)
	// TookOver: this standby began an election because a leader was gone; silent
	// if nothing was known but that it was not heard.
	TookOver func(silent bool)
}

func (o Observer) committed(commands int, began time.Time, err error) {
	if o.Committed != nil {
		o.Committed(commands, time.Since(began), err)
	}
}

func (o Observer) snapshot(bytes int64, began time.Time, err error) {
	if o.Snapshot != nil {
		o.Snapshot(bytes, time.Since(began), err)
	}
}

func (o Observer) tookOver(silent bool) {
	if o.TookOver != nil {
		o.TookOver(silent)
	}
}

// countingWriter counts what was written.
type countingWriter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Queued returns how many commands wait for a place in the log, and their bytes.
func (n *Node) Queued() (commands, bytes int) {
	n.queue.mu.Lock()
	defer n.queue.mu.Unlock()
	return n.queue.commands, n.queue.bytes
}
