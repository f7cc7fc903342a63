//go:build linux

package testcluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/masterd"
	"github.com/hearthd/hearth/model"
)

// few plays a scenario of many minutes with fewer seeds than others: 5 at most.
func few(t *testing.T, scenario func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	first, n := testcluster.Seeds(t, 1)
	for seed := first; seed < first+min(n, 5); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { testcluster.RunSeed(t, int64(seed), scenario) })
	}
}

// terms demands that no master has seen more than a number of new terms since one. Each change of leader is one.
func terms(t *testing.T, c *testcluster.Cluster, since uint64, atMost uint64) {
	t.Helper()
	for _, m := range c.Masters() {
		if now, _ := m.Belief(); now > since+atMost {
			t.Errorf("%s is in term %d, was in %d, want at most %d later", m.Host, now, since, atMost)
		}
	}
}

// submitEvery registers n applications, one each interval, whether the one before was answered or not, and returns how
// many were not accepted within limit.
func submitEvery(c *testcluster.Cluster, n int, interval, limit time.Duration) (failed int64) {
	cl := c.Client()
	var calls sync.WaitGroup
	var count atomic.Int64
	for i := range n {
		calls.Go(func() {
			if _, err := c.TrySubmit(cl, testcluster.Sleepers(fmt.Sprintf("app %d", i), 1), limit); err != nil {
				c.Logf("app %d: %v", i, err)
				count.Add(1)
			}
		})
		time.Sleep(interval)
	}
	calls.Wait()
	return count.Load()
}

// The rig of the field reports: a lease of 500 ms.
func TestSimHA07ShortFreezesOfTheLeadersNetworkChangeNothing(t *testing.T) {
	few(t, func(t *testing.T, c *testcluster.Cluster) {
		c.Tune = func(_ string, cfg *masterd.Config, _ *masterd.Deps) { cfg.RaftPreset = "rig" }
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		term, _ := leader.Belief()
		var failed int64
		submitted := make(chan struct{})
		go func() {
			defer close(submitted)
			failed = submitEvery(c, 300, 2*time.Second, 10*time.Second)
		}()
		for range 20 {
			// A submission falls into each freeze.
			time.Sleep(30*time.Second - 400*time.Millisecond - time.Duration(c.Rand.Intn(100))*time.Millisecond)
			c.Net.Pause(leader.Host)
			time.Sleep(400 * time.Millisecond)
			c.Net.Resume(leader.Host)
		}
		<-submitted
		if failed > 0 {
			t.Errorf("%d of 300 submissions failed", failed)
		}
		terms(t, c, term, 0)
	})
}

func TestSimHA17AFollowerThatWasCutOffForcesNobodyOut(t *testing.T) {
	few(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		term, _ := leader.Belief()
		follower := c.Masters(leader)[c.Rand.Intn(2)]
		c.Net.Isolate(follower.Host)
		c.Submit(testcluster.Sleepers("during", 1))
		time.Sleep(5 * time.Minute)
		c.Net.Heal()
		time.Sleep(time.Minute)
		c.Agree()
		terms(t, c, term, 0)
	})
}

func TestSimHA17AFollowerOnAFlakyLinkDisturbsNobody(t *testing.T) {
	few(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		term, _ := leader.Belief()
		follower := c.Masters(leader)[c.Rand.Intn(2)]
		var failed int64
		submitted := make(chan struct{})
		go func() {
			defer close(submitted)
			failed = submitEvery(c, 1000, 120*time.Millisecond, 2*time.Second)
		}()
		for range 60 {
			c.Net.Isolate(follower.Host)
			time.Sleep(time.Second)
			c.Net.Rejoin(follower.Host)
			time.Sleep(time.Second)
		}
		<-submitted
		if failed > 1 {
			t.Errorf("%d of 1000 submissions were not accepted within 2 s, want at most 1", failed)
		}
		terms(t, c, term, 1)
	})
}

func TestSimHA39AWallClockThatJumpsChangesNothing(t *testing.T) {
	few(t, func(t *testing.T, c *testcluster.Cluster) {
		var offsets [3]atomic.Int64
		c.Tune = func(host string, cfg *masterd.Config, deps *masterd.Deps) {
			cfg.RaftPreset = "rig"
			mine := &offsets[host[1]-'1']
			deps.Wall = func() time.Time { return time.Now().Add(time.Duration(mine.Load())) }
		}
		c.StartMasters(3)
		c.StartWorkers(2)
		leader := c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		app := c.Submit(testcluster.Sleepers("work", 4))
		c.Running(app, 4, 20*time.Second)
		term, _ := leader.Belief()
		n := 0
		for host := range offsets {
			for _, jump := range []time.Duration{time.Hour, -time.Hour, 0} {
				offsets[host].Store(int64(jump))
				n++
				c.Submit(testcluster.Sleepers(fmt.Sprintf("app %d", n), 1))
				time.Sleep(20 * time.Second)
				c.View().Workers(func(w *model.Worker) bool {
					if w.State != model.WorkerAlive {
						t.Errorf("%s is %s (%s) after a jump of m%d by %s", w.ID, w.State, w.StateReason, host+1, jump)
					}
					return true
				})
				for _, m := range c.Masters() {
					noNegatives(t, m.Host, getJSON(t, c, m, "/json"))
				}
			}
		}
		terms(t, c, term, 0)
		c.Running(app, 4, time.Second)
	})
}

// noNegatives fails on any negative number in a decoded JSON value.
func noNegatives(t *testing.T, where string, v any) {
	t.Helper()
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if k != "target" && k != "exit_code" { // -1 is a word there
				noNegatives(t, where+"."+k, e)
			}
		}
	case []any:
		for _, e := range x {
			noNegatives(t, where, e)
		}
	case float64:
		if x < 0 {
			t.Errorf("%s is %v", where, x)
		}
	}
}

// get fetches a path from a master's HTTP endpoint.
func get(t *testing.T, c *testcluster.Cluster, m *testcluster.Master, path string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Net.Host("client").Dial(ctx, addr)
		},
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.HTTPAddr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatalf("get %s of %s: %v", path, m.Host, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func getJSON(t *testing.T, c *testcluster.Cluster, m *testcluster.Master, path string) map[string]any {
	t.Helper()
	status, body := get(t, c, m, path)
	var out map[string]any
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != http.StatusOK {
		t.Fatalf("get %s of %s: status %d, %v", path, m.Host, status, err)
	}
	return out
}

// alarms lists the alarms that a master shows, as "KIND subject".
func alarms(t *testing.T, c *testcluster.Cluster, m *testcluster.Master) string {
	t.Helper()
	var out []string
	list, ok := getJSON(t, c, m, "/json")["alarms"].([]any)
	if !ok {
		t.Errorf("/json of %s has no list of alarms", m.Host)
	}
	for _, a := range list {
		a, _ := a.(map[string]any)
		out = append(out, fmt.Sprint(a["kind"], " ", a["subject"]))
	}
	return strings.Join(out, ", ")
}

// HA-13, for a standby: its heartbeats flow, so nobody would notice.
func TestSimHA13AStandbyWhoseDiskHangsIsUnreadyWithAnAlarm(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		var broken atomic.Pointer[string]
		release := make(chan struct{})
		c.Tune = func(host string, _ *masterd.Config, deps *masterd.Deps) {
			deps.Disk = func(string) error {
				if b := broken.Load(); b != nil && *b == host {
					<-release
				}
				return nil
			}
		}
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		term, _ := leader.Belief()
		standby := c.Masters(leader)[c.Rand.Intn(2)]
		c.Until("the standby is ready", 30*time.Second, func() error {
			if status, body := get(t, c, standby, "/readyz"); status != http.StatusOK {
				return fmt.Errorf("status %d: %s", status, body)
			}
			return nil
		})
		broken.Store(&standby.Host)
		c.Submit(testcluster.Sleepers("one", 1))
		time.Sleep(8 * time.Second)
		if status, body := get(t, c, standby, "/readyz"); status != http.StatusOK || alarms(t, c, standby) != "" {
			t.Errorf("after 8 s: status %d: %s, alarms %q; want none yet", status, body, alarms(t, c, standby))
		}
		time.Sleep(7 * time.Second)
		c.Submit(testcluster.Sleepers("two", 1)) // the others are a quorum
		if status, body := get(t, c, standby, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "disk does not answer") {
			t.Errorf("the standby's /readyz: status %d: %s; want unready because of its disk", status, body)
		}
		id := string(standby.ID())
		if got, want := alarms(t, c, standby), "STORE_STALLED "+id; got != want {
			t.Errorf("alarms of the standby: got %q, want %q", got, want)
		}
		if got, want := alarms(t, c, leader), "MASTER_STUCK "+id; got != want {
			t.Errorf("alarms of the leader: got %q, want %q", got, want)
		}
		broken.Store(nil)
		close(release)
		c.Until("everything is well again", 10*time.Second, func() error {
			status, body := get(t, c, standby, "/readyz")
			if a := alarms(t, c, standby) + alarms(t, c, leader); status != http.StatusOK || a != "" {
				return fmt.Errorf("status %d: %s, alarms %q", status, body, a)
			}
			return nil
		})
		terms(t, c, term, 0)
	})
}
