//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	pauseOf      = 30 * time.Second
	followsAfter = 2 * time.Second
)

// loyal is a worker of the test's own. Other than real ones it never leaves a
// session by itself, so that a leader that was paused finds it still there. It
// acknowledges nothing.
type loyal struct {
	id     string
	tls    *tls.Config // of a worker of its cluster; nil for an open one
	offer  model.Offer
	cancel []context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	highest uint64              // term that it has heard of
	orders  map[string][]uint64 // terms of the orders received, by leader
	obeyed  map[string]int      // of those, as many as the fence lets through
}

func newLoyal(t *testing.T, offer model.Offer) *loyal {
	t.Helper()
	w := &loyal{id: "worker-loyal", offer: offer, orders: map[string][]uint64{}, obeyed: map[string]int{}}
	for _, addr := range []*string{&w.offer.GRPCAddr, &w.offer.SerfAddr} { // a dial-back finds its process
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		*addr = l.Addr().String()
	}
	t.Cleanup(func() {
		for _, cancel := range w.cancel {
			cancel()
		}
		w.ended.Wait()
	})
	return w
}

// join opens a session with a master and waits for its Welcome.
func (w *loyal) join(t *testing.T, m *node) {
	t.Helper()
	conn, err := rpc.Dial(m.GRPC, rpc.DialConfig{TLS: w.tls})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = append(w.cancel, cancel)
	s, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	hello := model.WorkerHello{Worker: model.WorkerID(w.id), Incarnation: 1, BootID: "boot", Offer: w.offer}
	if err := s.Send(model.WorkerUp{Hello: &hello}); err != nil {
		t.Fatal(err)
	}
	first, err := s.Recv()
	if err != nil || first.Welcome == nil {
		t.Fatalf("%s answered Hello with %+v, %v", m.name, first, err)
	}
	w.heard(first.Welcome.Fence.Term)
	w.ended.Go(func() {
		defer func() { _ = conn.Close() }()
		for {
			down, err := s.Recv()
			if err != nil {
				return
			}
			switch {
			case down.Launch != nil:
				w.ordered(m.name, down.Launch.Fence.Term)
			case down.Kill != nil:
				w.ordered(m.name, down.Kill.Fence.Term)
			case down.AppEnded != nil:
				w.ordered(m.name, down.AppEnded.Fence.Term)
			}
		}
	})
	w.ended.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := uint64(1); s.Send(model.WorkerUp{Beat: &model.Beat{Number: n}}) == nil; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (w *loyal) heard(term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.highest = max(w.highest, term)
}

// ordered judges an order by the first rule of the fence: a lower term is refused.
func (w *loyal) ordered(by string, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders[by] = append(w.orders[by], term)
	if term >= w.highest {
		w.highest = term
		w.obeyed[by]++
	}
}

func (w *loyal) count(by string) (orders, obeyed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.orders[by]), w.obeyed[by]
}

// A paused leader is replaced; when it wakes up with a worker still connected,
// nothing that it says counts, and it is a standby with the same state (design
// 6: nobody acts on a lease).
func TestHA38APausedLeaderComesBackAsAStandbyThatNobodyObeys(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	old := c.leader(t)
	w := newLoyal(t, model.Offer{Hostname: "127.0.0.1", Cores: 1, MemoryMiB: 64 << 10})
	if secure() {
		_, w.tls = c.issue(t, tlsconf.RoleWorker, w.id)
	}
	w.join(t, old)
	// It fits nowhere else, and is ordered again and again: nobody acknowledges it.
	large := commandSpec("pending", 1, "sleep", "600")
	large.Profile.MemoryMiB = 32 << 10
	pending := c.register(t, large)
	eventually(t, settleWithin, "the old leader orders a launch", func() string {
		if n, _ := w.count(old.name); n == 0 {
			return "no order came"
		}
		return ""
	})

	old.stop(t)
	paused := time.Now()
	next := c.leader(t)
	t.Logf("%s leads %s after the pause of %s", next.name, time.Since(paused).Round(time.Millisecond), old.name)
	w.join(t, next)
	r := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0)
	t.Logf("a submission with a paused master in the list took %s", r.took.Round(time.Millisecond))
	steady(t, pauseOf-time.Since(paused), "the executors of the real workers stay", func() string {
		return cmp.Diff(before, pids(c.describe(t, app)))
	})
	_, obeyed := w.count(old.name)
	old.cont(t)
	woke := time.Now()
	wrote := c.writeThrough(t, old, "woken", woke)
	follows := eventually(t, leaderWithin, "the old leader follows", func() string {
		v, err := old.view()
		if err != nil {
			return err.Error()
		}
		if v.Staleness.Leader == "" || string(v.Staleness.Leader) == old.ID {
			return fmt.Sprintf("it names %q", v.Staleness.Leader)
		}
		return ""
	})
	t.Logf("a standby %s after it woke up", follows.Round(time.Millisecond))
	if took := time.Since(woke); took > followsAfter {
		t.Errorf("it followed after %s, want at most %s", took, followsAfter)
	}
	// What it acknowledged is the new leader's word.
	if v := c.describe(t, wrote); v.Name != "woken" {
		t.Errorf("the new leader has %+v", v)
	}
	orders, now := w.count(old.name)
	t.Logf("the worker that was still connected has had %d orders of %s", orders, old.name)
	if now != obeyed {
		t.Errorf("%d orders of the woken leader were obeyed", now-obeyed)
	}
	if diff := cmp.Diff(before, pids(c.awaitRunning(t, app, 2))); diff != "" {
		t.Errorf("executors changed (-before +after):\n%s", diff)
	}
	c.run(t, "kill", string(pending)).wantCode(t, 0)
	c.awaitRunning(t, r.app(t), 1)
}

// register registers an application and does not wait for it.
func (c *cluster) register(t testing.TB, spec model.AppSpec) model.AppID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	r, err := c.client.RegisterApp(ctx, spec)
	if err != nil {
		t.Fatalf("register %s: %v", spec.Name, err)
	}
	return r.App
}

// writeThrough registers an application at one master alone.
func (c *cluster) writeThrough(t *testing.T, m *node, name string, since time.Time) model.AppID {
	t.Helper()
	cl, err := c.access.client("e2e", m.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	reply, err := cl.RegisterApp(ctx, commandSpec(name, 64, "sleep", "600"))
	if err != nil {
		t.Fatalf("register at %s: %v", m.name, err)
	}
	t.Logf("a registration sent to %s was answered after %s", m.name, time.Since(since).Round(time.Millisecond))
	return reply.App
}
