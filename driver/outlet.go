package driver

import (
	"context"
	"io"
	"sync"
)

// outlet holds results until the consumer takes them. Safe for concurrent use.
type outlet struct {
	mu      sync.Mutex
	results []Result // from head on
	head    int
	bytes   int
	closed  bool
	ready   chan struct{}   // has a value when there may be results
	wake    chan<- struct{} // the loop's: there is room again
}

// add takes results, and returns memory for the next ones.
func (o *outlet) add(rs []Result) (next []Result) {
	o.mu.Lock()
	for i := range rs {
		o.bytes += resultBytes(&rs[i])
	}
	switch {
	case o.head == len(o.results): // all was taken, and what was taken is clear
		next = o.results[:0]
		o.results, o.head = rs, 0
	default:
		if o.head > 0 && len(o.results)+len(rs) > cap(o.results) {
			n := copy(o.results, o.results[o.head:])
			clear(o.results[n:])
			o.results, o.head = o.results[:n], 0
		}
		o.results = append(o.results, rs...)
		clear(rs)
		next = rs[:0]
	}
	o.mu.Unlock()
	ring(o.ready)
	return next
}

// full reports whether the consumer is so far behind that no task should be
// handed out.
func (o *outlet) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fullLocked()
}

func (o *outlet) fullLocked() bool {
	return len(o.results)-o.head >= MaxUndelivered || o.bytes >= MaxUndeliveredBytes
}

// take moves results to buf.
func (o *outlet) take(buf []Result) (n int, closed bool) {
	o.mu.Lock()
	was := o.fullLocked()
	n = copy(buf, o.results[o.head:])
	clear(o.results[o.head : o.head+n])
	o.head += n
	for i := range buf[:n] {
		o.bytes -= resultBytes(&buf[i])
	}
	if o.head == len(o.results) {
		o.results, o.head = o.results[:0], 0
	} else if n > 0 {
		ring(o.ready) // the rest
	}
	room := was && !o.fullLocked()
	closed = o.closed
	o.mu.Unlock()
	if room {
		ring(o.wake)
	}
	return n, closed
}

// close drops what nobody has taken and ends those who wait.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.results[o.head:] {
		r := &o.results[o.head+i]
		closeFiles([2]io.WriteCloser{r.StdoutFile, r.StderrFile})
	}
	o.results, o.head, o.bytes, o.closed = nil, 0, 0, true
	close(o.ready)
}

// Take moves results to buf, which must not be empty, and returns how many: at
// least one, unless ctx ends (its error) or Run has ended (io.EOF). It is for
// consumers of many small results; use either Take or Results.
func (d *Driver) Take(ctx context.Context, buf []Result) (int, error) {
	for {
		n, closed := d.out.take(buf)
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, io.EOF
		}
		select {
		case <-d.out.ready:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Results delivers one result for each task, in the order in which tasks end.
// Whoever does not read it stops the driver from handing out tasks once
// MaxUndelivered results wait. It is closed when Run ends.
func (d *Driver) Results() <-chan Result {
	d.wanted.Do(func() { close(d.want) })
	return d.results
}

// pump feeds the channel of Results once somebody has asked for it, until the
// driver ends.
func (d *Driver) pump(ctx context.Context) {
	defer close(d.results)
	select {
	case <-d.want:
	case <-ctx.Done():
		return
	}
	buf := make([]Result, pumpBatch)
	for {
		n, err := d.Take(ctx, buf)
		if err != nil {
			return
		}
		for i := range buf[:n] {
			select {
			case d.results <- buf[i]:
			case <-ctx.Done():
				for _, r := range buf[i:n] {
					closeFiles([2]io.WriteCloser{r.StdoutFile, r.StderrFile})
				}
				return
			}
			buf[i] = Result{}
		}
	}
}
