package masterd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// tap is the far end of a worker session on a host of its own. It acknowledges
// nothing, so that a leader repeats its orders for as long as it acts as one.
type tap struct {
	conn   *rpc.Conn
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	orders []time.Time // launches and kills
}

// newTap opens a session of a worker with the leader.
func (c *simCluster) newTap(leader *simMaster) *tap {
	c.t.Helper()
	host := c.net.Host("w1")
	conn, err := rpc.Dial(leader.GRPCAddr(), rpc.DialConfig{Dial: host.Dial})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	session, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		c.t.Fatal(err)
	}
	w := &tap{conn: conn, cancel: cancel}
	hello := &model.WorkerHello{Worker: "w1", Incarnation: 1, BootID: "boot", Offer: model.Offer{
		Hostname: "w1", GRPCAddr: host.IP().String() + ":7073", SerfAddr: host.IP().String() + ":7074", Cores: 8, MemoryMiB: 8192,
	}}
	if err := session.Send(model.WorkerUp{Hello: hello}); err != nil {
		c.t.Fatal(err)
	}
	w.ended.Go(func() {
		for {
			d, err := session.Recv()
			if err != nil {
				return
			}
			if d.Launch != nil || d.Kill != nil {
				w.mu.Lock()
				w.orders = append(w.orders, time.Now())
				w.mu.Unlock()
			}
		}
	})
	w.ended.Go(func() {
		for n := uint64(1); ctx.Err() == nil; n++ {
			if err := session.Send(model.WorkerUp{Beat: &model.Beat{Number: n}}); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	})
	return w
}

func (w *tap) close(t *testing.T) {
	t.Helper()
	w.cancel()
	w.ended.Wait()
	if err := w.conn.Close(); err != nil {
		t.Error(err)
	}
}

// since counts the orders that came after a moment.
func (w *tap) since(at time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, o := range w.orders {
		if o.After(at) {
			n++
		}
	}
	return n
}

func TestSimHA08ALeaderThatIsCutOffFromBothFollowersOrdersNothing(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		for n := range c.dirs {
			c.start(n)
		}
		old, _ := c.settled(20 * time.Second)
		worker := c.newTap(old)
		defer worker.close(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cl := c.client(old)
		defer func() {
			if err := cl.Close(); err != nil {
				t.Error(err)
			}
		}()
		spec := sleeper("placed")
		spec.Executors = 4
		app, err := cl.RegisterApp(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		c.until("the launch orders", 10*time.Second, func() error {
			if n := worker.since(time.Time{}); n < 4 {
				return fmt.Errorf("got %d", n)
			}
			return nil
		})
		// The four are not acknowledged: they are ordered again every 5 s.
		time.Sleep(time.Duration(c.rnd.Int63n(int64(5 * time.Second))))

		for _, m := range c.ms {
			if m != old {
				c.net.Partition(old.host, m.host)
			}
		}
		cut := time.Now()
		conn, err := rpc.Dial(old.GRPCAddr(), rpc.DialConfig{Dial: c.net.Host("client").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
		direct := rpc.ClusterClient(conn)
		time.Sleep(time.Until(cut.Add(time.Second)))
		var writes sync.WaitGroup
		for n := range 48 {
			if old.leading.Load() != nil {
				t.Errorf("it acts as leader %s after the cut", time.Since(cut))
			}
			writes.Go(func() {
				id := fmt.Sprintf("write-%d", n)
				call, stop := context.WithTimeout(ctx, 10*time.Second)
				defer stop()
				var err error
				if n%2 == 0 {
					_, err = direct.RegisterApp(call, rpc.CallInfo{RequestID: id}, sleeper(id))
				} else {
					err = direct.KillApp(call, rpc.CallInfo{RequestID: id}, app.App, "cut off")
				}
				if !errors.Is(err, model.ErrNotLeader) && !errors.Is(err, model.ErrNoLeader) {
					t.Errorf("write %d: got %v, want that there is no leader", n, err)
				}
			})
			time.Sleep(250 * time.Millisecond)
		}
		writes.Wait()
		if n := worker.since(cut.Add(time.Second)); n > 0 {
			t.Errorf("it sent %d orders later than 1 s after the cut", n)
		}
		c.net.Heal()
		c.agree()
		for _, m := range c.ms {
			if n := m.fsm.View().CountActive(); n != 1 {
				t.Errorf("%s has %d applications, want the one from before", m.host, n)
			}
		}
	})
}
