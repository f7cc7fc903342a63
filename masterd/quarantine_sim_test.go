package masterd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// The fault is in every master: whoever leads panics at the same application.
func TestSimHA04AnApplicationThatPanicsTheLeaderIsLeftAlone(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		var bad atomic.Pointer[model.AppID]
		c.deps = func(_ int, d *Deps) {
			d.seams.app = func(id model.AppID) {
				if b := bad.Load(); b != nil && *b == id {
					panic("application " + string(id) + " is looked at")
				}
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		apps := c.waiting(100)
		bad.Store(&apps[57])
		recovering := c.recovering(100 * time.Millisecond)
		for range 3 { // each master in turn recovers with it
			leader, err := c.leader()
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.transfer(context.Background(), ""); err != nil {
				t.Fatal(err)
			}
			moved := time.Now()
			c.until("a leader that serves, and lists the application", 10*time.Second, func() error {
				if _, err := c.leader(leader); err != nil {
					return err
				}
				return c.listed(apps[57], true)
			})
			t.Logf("listed by every master after %s", time.Since(moved))
			w.connect()
			app, _ := c.submit("new", 5*time.Second, c.ms...)
			took := c.until("an executor of a new application", 5*time.Second, func() error { return c.placed(app) })
			t.Logf("a new application got its executor after %s", took)
		}
		if longest := recovering(); longest > 20*time.Second {
			t.Errorf("a master was recovering for %s", longest)
		}
		bad.Store(nil)
		c.until("the application is looked at again", 2*quarantineFirst, func() error { return c.listed(apps[57], false) })
		w.stop()
		c.agree()
	})
}

// waiting registers n applications that want more than any worker has.
func (c *simCluster) waiting(n int) []model.AppID {
	c.t.Helper()
	cl := c.client(c.ms...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var apps []model.AppID
	for i := range n {
		spec := sleeper(fmt.Sprintf("app %d", i))
		spec.Profile.MemoryMiB = 1 << 20
		reply, err := cl.RegisterApp(ctx, spec)
		if err != nil {
			c.t.Fatal(err)
		}
		apps = append(apps, reply.App)
	}
	if err := cl.Close(); err != nil {
		c.t.Error(err)
	}
	return apps
}

// recovering measures, until stop, for how long at most a master has led
// without being ready.
func (c *simCluster) recovering(every time.Duration) (stop func() time.Duration) {
	quit, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	go func() {
		defer close(done)
		since := make(map[*simMaster]time.Time)
		for {
			for _, m := range c.ms {
				_, leads := m.node.Belief()
				if _, counting := since[m]; !leads || m.leading.Load() != nil || !counting {
					since[m] = time.Now()
				}
				longest = max(longest, time.Since(since[m]))
			}
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
		}
	}()
	return func() time.Duration {
		close(quit)
		<-done
		return longest
	}
}

// listed checks what every master shows of an application.
func (c *simCluster) listed(id model.AppID, want bool) error {
	for _, m := range c.ms {
		v, err := m.clusterView()
		if err != nil {
			return err
		}
		for _, a := range v.Apps {
			got := a.Reason != ""
			switch {
			case a.ID == id && got != want:
				return fmt.Errorf("%s gives the reason %q for %s", m.host, a.Reason, id)
			case a.ID != id && got:
				return fmt.Errorf("%s lists %s as well: %s", m.host, a.ID, a.Reason)
			}
		}
	}
	return nil
}

func (c *simCluster) placed(app model.AppID) error {
	leader, err := c.leader()
	if err != nil {
		return err
	}
	err = errors.New("it has none")
	leader.fsm.View().Executors(app, func(*model.Executor) bool {
		err = nil
		return false
	})
	return err
}

// simWorker is a worker in the simulated network that obeys nothing.
type simWorker struct {
	c      *simCluster
	id     model.WorkerID
	grpc   string
	serf   string
	lis    []net.Listener
	apps   []model.AppID          // that its Hello names
	has    []model.ExecutorReport // its Hello's inventory
	up     chan model.WorkerUp    // what it says beside beats
	seq    uint64                 // of its last report
	got    func(model.WorkerDown) // is told what the leader says; nil = nobody is
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func newSimWorker(c *simCluster, id string) *simWorker {
	c.t.Helper()
	w := &simWorker{c: c, id: model.WorkerID(id), up: make(chan model.WorkerUp)}
	for _, port := range []string{"7073", "7074"} { // a dial-back finds its process
		l, err := c.net.Host(id).Listen(":" + port)
		if err != nil {
			c.t.Fatal(err)
		}
		w.lis = append(w.lis, l)
	}
	ip := c.net.Host(id).IP().String()
	w.grpc, w.serf = ip+":7073", ip+":7074"
	return w
}

// connect opens a session with the leader, instead of an earlier one.
func (w *simWorker) connect() {
	w.c.t.Helper()
	if w.cancel != nil {
		w.cancel()
	}
	leader, err := w.c.leader()
	if err != nil {
		w.c.t.Fatal(err)
	}
	conn, err := rpc.Dial(leader.GRPCAddr(), rpc.DialConfig{Dial: w.c.net.Host(string(w.id)).Dial})
	if err != nil {
		w.c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	s, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		w.c.t.Fatal(err)
	}
	err = s.Send(model.WorkerUp{Hello: &model.WorkerHello{
		Worker: w.id, Incarnation: 1, BootID: "boot", Apps: w.apps, Inventory: w.has, ReportSeq: w.seq,
		Offer: model.Offer{Hostname: string(w.id), GRPCAddr: w.grpc, SerfAddr: w.serf, Cores: 8, MemoryMiB: 8192},
	}})
	if err != nil {
		w.c.t.Fatal(err)
	}
	welcome, err := s.Recv()
	if err != nil || welcome.Welcome == nil {
		w.c.t.Fatalf("worker %s got %+v, %v", w.id, welcome, err)
	}
	w.ended.Go(func() {
		for {
			d, err := s.Recv()
			if err != nil {
				return
			}
			if w.got != nil {
				w.got(d)
			}
		}
	})
	w.ended.Go(func() {
		defer func() { _ = conn.Close() }()
		say := model.WorkerUp{Beat: &model.Beat{Number: 1}}
		beats := time.NewTicker(time.Second)
		defer beats.Stop()
		for n := uint64(2); s.Send(say) == nil; n++ {
			select {
			case <-ctx.Done():
				return
			case <-beats.C:
				say = model.WorkerUp{Beat: &model.Beat{Number: n}}
			case say = <-w.up:
			}
		}
	})
}

// report says something of executors.
func (w *simWorker) report(reports ...model.ExecutorReport) {
	w.seq++
	w.up <- model.WorkerUp{Report: &model.WorkerReport{Incarnation: 1, Seq: w.seq, Executors: reports}}
}

func (w *simWorker) stop() {
	w.cancel()
	w.ended.Wait()
	for _, l := range w.lis {
		_ = l.Close()
	}
}
