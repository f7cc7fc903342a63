//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// A master that returns on other addresses is the same member (design 4).
func TestAMasterThatReturnsOnOtherPortsIsTheSameMember(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	for _, which := range []string{"standby", "leader"} {
		victim := c.leader(t)
		if which == "standby" {
			victim = c.standbys(t)[0]
		}
		victim.proc.kill9(t)
		c.restart(t, victim)
		if n := len(c.status(t).Masters); n != 3 {
			t.Errorf("%d masters after the restart of the %s", n, which)
		}
		app := c.run(t, "submit", "--completions", "1", "--wait", "--", "true").wantCode(t, 0).app(t)
		c.sameState(t)
		if v := c.describe(t, app); v.State != model.AppFinished {
			t.Errorf("%s is %s", app, v.State)
		}
	}
}

// Nothing that was acknowledged is lost, and running work is adopted, when all
// masters die at once and come back.
func TestAllMastersDieAtOnceAndComeBackWithEverything(t *testing.T) {
	c := newCluster(t, size{workers: 2})
	app := c.run(t, "submit", "--executors", "3", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 3))
	c.run(t, "settings", "set", "default_cores=3").wantCode(t, 0)
	acknowledged := c.run(t, "submit", "--detach", "--cores", "64", "--", "true").wantCode(t, 0).app(t)
	old := append([]*node(nil), c.masters...)
	for _, m := range old {
		m.proc.signal(t, syscall.SIGKILL)
	}
	for _, m := range old {
		m.proc.awaitEnd(t, goneWithin)
	}
	// Their addresses are what they find each other by: they come back on the
	// same ones, as daemons with configured ports do.
	started := time.Now()
	var fresh []*node
	for _, m := range old {
		fresh = append(fresh, c.launchThere(t, m))
	}
	for _, m := range fresh {
		c.awaitReady(t, m)
	}
	t.Logf("all masters were ready after %s", time.Since(started).Round(time.Millisecond))
	eventually(t, settleWithin, "the workers are back", func() string {
		for _, w := range c.status(t).Workers {
			if w.State != model.WorkerAlive {
				return fmt.Sprintf("%s is %s", w.ID, w.State)
			}
		}
		return ""
	})
	t.Logf("the workers were back after %s", time.Since(started).Round(time.Millisecond))
	if diff := cmp.Diff(before, pids(c.awaitRunning(t, app, 3))); diff != "" {
		t.Errorf("executors changed (-before +after):\n%s", diff)
	}
	if v := c.describe(t, acknowledged); v.State != model.AppWaiting {
		t.Errorf("the acknowledged application is %s", v.State)
	}
	c.run(t, "settings", "set", "default_cores=0").wantCode(t, 0)
}

// churnFor is how long daemons die at random in the churn test.
const churnFor = 25 * time.Second

// endedKept is how many ended applications a cluster remembers.
const endedKept = 200

// Masters and workers die and come back at random while applications are
// registered: each registration that was acknowledged is completed exactly as
// often as it should be, and none is there that nobody asked for.
func TestEverythingAcknowledgedIsDoneWhileDaemonsDieAndComeBack(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 3, cores: 8})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var mu sync.Mutex // guards asked, apps and the change of c.client
	asked := map[string]bool{}
	apps := map[model.AppID]string{}
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for n := 0; ctx.Err() == nil && n < endedKept; n++ {
				name := fmt.Sprintf("churn-%d", n)
				spec := commandSpec(name, 1, "sh", "-c", "sleep 0.3")
				spec.Completions = 3
				spec.Executors = 2
				mu.Lock()
				asked[name] = true
				cl := c.client
				mu.Unlock()
				rctx, stop := context.WithTimeout(context.Background(), settleWithin)
				r, err := cl.RegisterApp(rctx, spec)
				stop()
				if errors.Is(err, model.ErrRefused) {
					continue // the client was replaced meanwhile; the next name comes
				}
				if err != nil {
					return fmt.Errorf("register %s: %w", name, err)
				}
				mu.Lock()
				apps[r.App] = name
				mu.Unlock()
			}
			return nil
		}()
	}()
	kills := 0
	for end := time.Now().Add(churnFor); time.Now().Before(end); kills++ {
		var victim *node
		switch rnd.IntN(4) {
		case 0:
			victim = c.leader(t)
		case 1:
			victim = c.standbys(t)[0]
		default:
			victim = c.workers[rnd.IntN(len(c.workers))]
		}
		t.Logf("kill -9 %s", victim.name)
		victim.proc.kill9(t)
		fresh := c.launchThere(t, victim)
		mu.Lock()
		c.awaitReady(t, fresh)
		mu.Unlock()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d daemons died while %d applications were registered", kills, len(apps))
	started := time.Now()
	for app, name := range apps {
		v := c.awaitEnded(t, app, time.Minute)
		if v.State != model.AppFinished || v.Completed != 3 || v.Name != name {
			t.Errorf("%s (%s) is %s with %d of 3 completions: %s", app, name, v.State, v.Completed, v.Reason)
		}
	}
	t.Logf("all had ended %s later", time.Since(started).Round(time.Millisecond))
	c.sameState(t)
	actx, stop := context.WithTimeout(context.Background(), askTimeout)
	defer stop()
	r, err := c.client.Apps(actx, rpc.AppsRequest{Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range r.Apps {
		if !asked[a.Name] || seen[a.Name] {
			t.Errorf("%s (%s) was registered twice or never asked for", a.ID, a.Name)
		}
		seen[a.Name] = true
	}
}
