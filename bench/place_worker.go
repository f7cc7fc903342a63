package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// reportLimit bounds the executors in one report, as with real workers.
	reportLimit = 256
	welcomeWait = 30 * time.Second
	// pretendedMemory is what a pretended worker offers, in MiB.
	pretendedMemory = model.MaxMemoryMiB
)

// pretended is a worker without processes: a real session with the leader, in
// which launches are accepted (reported as LAUNCHING at once) and later
// reported as done. What is measured beside it is thus the masters' work, all
// of it: orders and acknowledgements too.
type pretended struct {
	id     model.WorkerID
	stream rpc.WorkerSessionClient
	conn   *rpc.Conn
	tally  *tally
	// runs: executors are reported as RUNNING too, so that they stay.
	runs atomic.Bool

	mu     sync.Mutex
	fresh  []model.ExecutorRef            // launched, not reported
	held   map[model.ExecutorRef]struct{} // launched, not reported as done
	acked  uint64
	ending bool

	wake  chan struct{} // capacity 1
	acks  chan struct{} // capacity 1
	beat  time.Duration
	next  chan time.Duration // capacity 1: from the last beat to the next one, as the leader asks
	ended chan error         // capacity 1: why the session is over
	stop  context.CancelFunc
	loops sync.WaitGroup
}

// tally counts launches over all pretended workers.
type tally struct {
	mu     sync.Mutex
	count  int
	target int
	done   chan struct{} // closed when count reaches target
	last   time.Time
}

// expect begins to count anew; the channel is closed at the n-th launch.
func (t *tally) expect(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count, t.target, t.done = 0, n, make(chan struct{})
	return t.done
}

func (t *tally) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count += n
	if t.done != nil && t.count >= t.target {
		t.last = time.Now()
		close(t.done)
		t.done = nil
	}
}

// reached is when the target was reached.
func (t *tally) reached() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *tally) seen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// pretend opens a session at the leader and returns when it is welcomed.
func pretend(ctx context.Context, leader string, n int, t *tally) (*pretended, error) {
	return pretendOffering(ctx, leader, n, t, model.Offer{Cores: model.MaxCores, MemoryMiB: pretendedMemory})
}

// pretendOffering is pretend with so many cores and so much memory.
func pretendOffering(ctx context.Context, leader string, n int, t *tally, offer model.Offer) (*pretended, error) {
	offer.Hostname, offer.GRPCAddr, offer.SerfAddr = "pretended", "127.0.0.1:1", "127.0.0.1:1"
	conn, err := rpc.Dial(leader, rpc.DialConfig{Principal: "bench"})
	if err != nil {
		return nil, fmt.Errorf("pretended worker %d: %w", n, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &pretended{
		id: model.WorkerID(fmt.Sprintf("worker-20260101000000-%08x", n)), conn: conn, tally: t,
		held: make(map[model.ExecutorRef]struct{}),
		wake: make(chan struct{}, 1), acks: make(chan struct{}, 1), next: make(chan time.Duration, 1), ended: make(chan error, 1), stop: cancel,
	}
	if w.stream, err = rpc.OpenWorkerSession(ctx, conn); err == nil {
		err = w.hello(ctx, offer)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("pretended worker %d: %w", n, err), conn.Close())
	}
	w.loops.Go(w.receive)
	w.loops.Go(func() { w.speak(ctx) })
	return w, nil
}

func (w *pretended) hello(ctx context.Context, offer model.Offer) error {
	timeout := time.AfterFunc(welcomeWait, func() { _ = w.stream.Close() })
	defer timeout.Stop()
	err := w.stream.Send(model.WorkerUp{Hello: &model.WorkerHello{
		Worker: w.id, Incarnation: 1, BootID: "pretended", Offer: offer,
	}})
	if err != nil {
		return err
	}
	down, err := w.stream.Recv()
	if err != nil {
		return err
	}
	if down.Welcome == nil {
		return fmt.Errorf("%w: the leader did not welcome it", model.ErrRefused)
	}
	w.beat = time.Duration(down.Welcome.BeatMilli) * time.Millisecond
	return ctx.Err()
}

// close ends the session.
func (w *pretended) close() {
	w.stop()
	_ = w.stream.Close()
	w.loops.Wait()
	_ = w.conn.Close()
}

// receive takes orders until the session ends.
func (w *pretended) receive() {
	for {
		down, err := w.stream.Recv()
		if err != nil {
			w.ended <- fmt.Errorf("session of pretended worker %s: %w", w.id, err)
			return
		}
		switch {
		case down.BeatAck != nil:
			select {
			case w.next <- time.Duration(down.BeatAck.NextMicro) * time.Microsecond:
			default:
			}
		case down.Launch != nil:
			w.launched(down.Launch.Ref)
		case down.ReportAck != nil:
			w.mu.Lock()
			w.acked = max(w.acked, down.ReportAck.Seq)
			w.mu.Unlock()
			poke(w.acks)
		}
	}
}

// launched takes note of a launch; one that is repeated counts once.
func (w *pretended) launched(ref model.ExecutorRef) {
	w.mu.Lock()
	_, again := w.held[ref]
	if !again {
		w.held[ref] = struct{}{}
		w.fresh = append(w.fresh, ref)
	}
	w.mu.Unlock()
	if !again {
		w.tally.add(1)
		poke(w.wake)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// speak sends beats and reports. Reports gather while the one before is
// unacknowledged.
func (w *pretended) speak(ctx context.Context) {
	due := time.NewTimer(w.beat)
	defer due.Stop()
	var beat, seq uint64
	var last time.Time
	wake := w.wake
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-w.next:
			if next > 0 {
				due.Reset(max(time.Millisecond, next-time.Since(last)))
			}
			continue
		case <-due.C:
			due.Reset(w.beat)
			last = time.Now()
			beat++
			if w.stream.Send(model.WorkerUp{Beat: &model.Beat{Number: beat}}) != nil {
				return // receive says why
			}
			continue
		case <-wake:
		case <-w.acks:
		}
		w.mu.Lock()
		idle := w.acked == seq
		w.mu.Unlock()
		if !idle {
			wake = nil // until the acknowledgement is here
			continue
		}
		wake = w.wake
		if batch := w.batch(); len(batch) > 0 {
			seq++
			if w.stream.Send(model.WorkerUp{Report: &model.WorkerReport{Incarnation: 1, Seq: seq, Executors: batch}}) != nil {
				return
			}
		}
	}
}

// batch is what the next report says.
func (w *pretended) batch() []model.ExecutorReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []model.ExecutorReport
	if n := min(len(w.fresh), reportLimit); n > 0 {
		for _, ref := range w.fresh[:n] {
			out = append(out, model.ExecutorReport{Ref: ref, State: model.ExecutorLaunching, ExitCode: -1, PID: 1})
			if w.runs.Load() {
				out = append(out, model.ExecutorReport{Ref: ref, State: model.ExecutorRunning, ExitCode: -1, PID: 1})
			}
		}
		w.fresh = w.fresh[n:]
		return out
	}
	if w.ending {
		for ref := range w.held {
			delete(w.held, ref)
			out = append(out, model.ExecutorReport{Ref: ref, State: model.ExecutorExited})
			if len(out) == reportLimit {
				break
			}
		}
	}
	return out
}

// finish reports everything as done and returns when that is committed.
func (w *pretended) finish(ctx context.Context) error {
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.ending = false
		w.mu.Unlock()
	}()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		w.mu.Lock()
		left := len(w.held)
		w.mu.Unlock()
		if left == 0 {
			return nil
		}
		poke(w.wake)
		select {
		case <-tick.C:
		case err := <-w.ended:
			w.ended <- err
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
