//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// A thousand clients register at once, each answer is lost once, and the
// leader dies in the middle: a registration happens exactly once (design 8).
func TestAThousandClientsGetOneApplicationEachThroughAFailoverWithEveryAnswerCut(t *testing.T) {
	skipLong(t)
	clients := 1000
	if secure() {
		clients = 200 // a handshake is two signatures: more would test the machine
	}
	c := newCluster(t, size{workers: 1, cores: 1})
	leader := c.leader(t)
	var cuts atomic.Int64
	var mu sync.Mutex
	owner := map[model.AppID]string{}
	var slowest time.Duration
	started := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	var g errgroup.Group
	for n := range clients {
		name := fmt.Sprintf("client-%04d", n)
		g.Go(func() error {
			app, err := c.registerOne(ctx, name, &cutter{cuts: &cuts, tls: c.access.tls})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if other, twice := owner[app]; twice {
				return fmt.Errorf("%s and %s were both given %s", name, other, app)
			}
			owner[app] = name
			slowest = max(slowest, time.Since(started))
			return nil
		})
	}
	eventually(t, settleWithin, "a third of the answers cut", func() string {
		if n := cuts.Load(); n < int64(clients/3) {
			return fmt.Sprintf("%d", n)
		}
		return ""
	})
	leader.proc.signal(t, syscall.SIGKILL)
	killed := time.Since(started)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the leader died after %s, the last of %d clients was answered after %s", killed.Round(time.Millisecond), clients, slowest.Round(time.Millisecond))
	if n := cuts.Load(); n != int64(clients) {
		t.Errorf("%d answers were cut, want one for each of %d clients", n, clients)
	}
	c.sameState(t)
	for _, m := range living(c.masters) {
		v, err := m.view()
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Apps) != clients || v.EndedApps != 0 {
			t.Errorf("%s holds %d live and %d ended applications, want %d and none", m.name, len(v.Apps), v.EndedApps, clients)
		}
		for _, a := range v.Apps {
			if owner[a.ID] != a.Name {
				t.Errorf("%s: %s is of %q, but was given to %q", m.name, a.ID, a.Name, owner[a.ID])
			}
		}
	}
}

// registerOne registers through a client with connections of its own.
func (c *cluster) registerOne(ctx context.Context, name string, cut *cutter) (app model.AppID, err error) {
	cl, err := client.New(client.Config{Masters: strings.Split(c.masterList, ","), Dialer: cut.dial, Principal: name, Token: c.access.token})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, cl.Close()) }()
	// No worker is large enough, so nothing is launched.
	r, err := cl.RegisterApp(ctx, commandSpec(name, 2, "true"))
	return r.App, err
}

// commandSpec describes one copy of a command.
func commandSpec(name string, cores int, argv ...string) model.AppSpec {
	return model.AppSpec{
		Name: name, Kind: model.AppKindCommand, Executors: 1,
		Profile: model.Profile{Cores: cores, MemoryMiB: 64},
		Command: model.Command{Argv: argv}, Restart: model.RestartAlways,
	}
}

// The same request id is the same application, through whichever master and
// whoever asks (design 4).
func TestARepeatedRequestIDIsTheSameApplicationOnEveryMaster(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 1})
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	spec := commandSpec("repeated", 2, "true")
	id := c.client.NewRequestID()
	apps := map[model.AppID]bool{}
	for round := range 2 {
		for _, m := range living(c.masters) {
			cl, err := c.access.client("", m.GRPC)
			if err != nil {
				t.Fatal(err)
			}
			r, err := cl.RegisterAppWithID(ctx, id, spec)
			if err = errors.Join(err, cl.Close()); err != nil {
				t.Fatalf("through %s: %v", m.name, err)
			}
			apps[r.App] = true
		}
		if round == 0 {
			c.leader(t).proc.kill9(t)
			c.leader(t)
		}
	}
	if len(apps) != 1 {
		t.Errorf("the applications are %v, want one", apps)
	}
	c.sameState(t)
	r, err := c.client.Apps(ctx, rpc.AppsRequest{Ended: true})
	if err != nil || len(r.Apps) != 1 {
		t.Errorf("%d applications, error %v, want one", len(r.Apps), err)
	}
}
