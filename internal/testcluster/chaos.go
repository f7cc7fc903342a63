//go:build linux

package testcluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
)

// Bounds of the faults that Chaos draws.
const (
	maxFaultPause = time.Second      // between two faults
	maxOutage     = 6 * time.Second  // of a host or link before it is mended
	loadPatience  = 10 * time.Second // of a caller
	maxLoadApps   = 6                // at the same time
)

// Chaos plays random faults for a while, drawn from the cluster's seed: deaths of every kind of masters and workers,
// partitions, one-way cuts, lost and late packets, hosts that stand still, changes of leadership, alone and together.
// Meanwhile applications are submitted and killed. It returns with the cluster as broken as it happens to be.
func (c *Cluster) Chaos(duration time.Duration) {
	c.t.Helper()
	load := c.StartLoad(2)
	end := time.Now().Add(duration)
	var repairs []repair
	for time.Now().Before(end) {
		time.Sleep(c.upTo(maxFaultPause))
		rest := repairs[:0]
		for _, r := range repairs {
			if time.Now().After(r.at) {
				r.mend()
			} else {
				rest = append(rest, r)
			}
		}
		repairs = rest
		if r, ok := c.fault(); ok {
			repairs = append(repairs, r)
		}
	}
	load.Stop()
}

// repair undoes a fault, not before a time.
type repair struct {
	at   time.Time
	mend func()
}

func (c *Cluster) upTo(d time.Duration) time.Duration { return time.Duration(c.Rand.Int63n(int64(d))) }

func (c *Cluster) fault() (repair, bool) {
	c.t.Helper()
	mend := c.breakSomething()
	if mend == nil {
		return repair{}, false
	}
	return repair{at: time.Now().Add(c.upTo(maxOutage)), mend: mend}, true
}

// breakSomething breaks one thing and returns how to mend it, nil if that is not needed.
func (c *Cluster) breakSomething() (mend func()) {
	c.t.Helper()
	hosts := c.Net.Hosts()
	a, b := hosts[c.Rand.Intn(len(hosts))], hosts[c.Rand.Intn(len(hosts))]
	switch c.Rand.Intn(11) {
	case 0, 1:
		return c.breakMaster()
	case 2, 3:
		return c.breakWorker()
	case 4:
		c.Logf("%s is cut off", a)
		c.Net.Isolate(a)
		return func() { c.Logf("%s is back", a); c.rejoin(a) }
	case 5:
		c.Logf("%s and %s are cut", a, b)
		c.Net.Partition(a, b)
		return func() { c.Net.HealLink(a, b) }
	case 6:
		c.Logf("%s does not reach %s", a, b)
		c.Net.CutOneWay(a, b)
		return func() { c.Net.HealLink(a, b) }
	case 7:
		c.Logf("datagrams of %s do not reach %s", a, b)
		c.Net.CutDatagrams(a, b)
		return func() { c.Net.HealLink(a, b) }
	case 8:
		c.Logf("%s stands still", a)
		c.Net.Pause(a)
		return func() { c.Net.Resume(a) }
	case 9:
		c.Logf("packets are lost and late")
		c.Net.SetLoss(0.1 * c.Rand.Float64())
		c.Net.SetLatency(c.upTo(20*time.Millisecond), 1+c.upTo(50*time.Millisecond))
		return func() { c.calm() }
	default:
		c.changeLeader()
		return nil
	}
}

// calm makes the network a good one again, but for cuts.
func (c *Cluster) calm() {
	c.Net.SetLoss(0)
	c.Net.SetDatagramLoss(0)
	c.Net.SetLatency(defaultLatency, 0)
}

// rejoin ends an isolation unless the machine has no power.
func (c *Cluster) rejoin(host string) {
	if !c.dark[host] {
		c.Net.Rejoin(host)
	}
}

func (c *Cluster) breakMaster() func() {
	c.t.Helper()
	up := c.Masters()
	if len(up) == 0 {
		return nil
	}
	m := up[c.Rand.Intn(len(up))]
	return c.breakDaemon(m.Host, func() { c.StopMaster(m) }, func() { c.KillMaster(m) }, func() { c.RestartMaster(m) })
}

func (c *Cluster) breakWorker() func() {
	c.t.Helper()
	up := c.Workers()
	if len(up) == 0 {
		return nil
	}
	w := up[c.Rand.Intn(len(up))]
	return c.breakDaemon(w.Host, func() { c.StopWorker(w) }, func() { c.KillWorker(w) }, func() { c.RestartWorker(w) })
}

// breakDaemon ends what runs on a host in one of three ways, half the time by a
// kill, and returns what starts it again.
func (c *Cluster) breakDaemon(host string, stop, kill, start func()) func() {
	c.t.Helper()
	switch c.Rand.Intn(4) {
	case 0:
		c.Logf("%s loses power", host)
		c.PowerOff(host)
	case 1:
		c.Logf("%s is stopped", host)
		stop()
	default:
		c.Logf("%s is killed", host)
		kill()
	}
	return func() {
		c.Logf("%s starts", host)
		start()
	}
}

func (c *Cluster) changeLeader() {
	leader, err := c.Leader()
	if err != nil {
		return
	}
	c.Logf("%s hands leadership over", leader.Host)
	ctx, cancel := context.WithTimeout(context.Background(), loadPatience)
	defer cancel()
	if err := leader.Transfer(ctx, ""); err != nil {
		c.Logf("transfer: %v", err)
	}
}

// Load is callers that submit and kill applications.
type Load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// StartLoad starts callers that submit and kill applications until Stop.
func (c *Cluster) StartLoad(callers int) *Load {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel}
	for i := range callers {
		cl, seed := c.ClientOn(fmt.Sprintf("client%d", i+1)), c.Rand.Int63()
		l.wg.Go(func() { c.caller(ctx, cl, fmt.Sprintf("caller%d", i+1), seed) })
	}
	return l
}

// Stop lets the calls under way end.
func (l *Load) Stop() {
	l.cancel()
	l.wg.Wait()
}

// caller submits one application after the other and kills some, until ctx ends.
func (c *Cluster) caller(ctx context.Context, cl *client.Client, name string, seed int64) {
	rnd := newRand(seed)
	var mine []model.AppID
	for n := 0; ctx.Err() == nil; n++ {
		spec := Sleepers(fmt.Sprintf("%s-%d", name, n), 1+rnd.Intn(2))
		switch rnd.Intn(4) {
		case 0: // one that ends by itself
			spec.Command.Argv = []string{"sleep", "3"}
			spec.Completions = spec.Executors
		case 1:
			spec.Executors, spec.Disconnect = 1, model.DisconnectSingleton
		}
		if app, err := c.TrySubmit(cl, spec, loadPatience); err == nil { //nolint:contextcheck // Stop lets it end
			mine = append(mine, app)
		}
		if len(mine) > maxLoadApps/2 {
			i := rnd.Intn(len(mine))
			kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadPatience)
			_ = cl.KillApp(kill, mine[i], "enough") // it may have ended, or nobody answers
			cancel()
			mine = append(mine[:i], mine[i+1:]...)
		}
		t := time.NewTimer(time.Duration(rnd.Int63n(int64(3 * time.Second))))
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}
