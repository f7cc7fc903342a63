//go:build linux

package testcluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/web"
)

// deathsOfOB05 is how many workers die; agreeWithin is how soon all ways to look must say so after the change.
const (
	deathsOfOB05 = 100
	agreeWithin  = 2 * time.Second
)

// OB-05: a node is down for one command and ready for another. Here command line, JSON, page and metrics of every master
// are asked after each death.
func TestSimOB05AllWaysToLookAgreeAfterEachDeathOfAWorker(t *testing.T) {
	testcluster.RunSeed(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(6)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(6, 20*time.Second)
		worst := time.Duration(0)
		for death := range deathsOfOB05 {
			w := c.Workers()[c.Rand.Intn(len(c.Workers()))]
			c.KillWorker(w)
			c.Until("the death is in the state", 15*time.Second, func() error {
				if state := c.WorkerState(w); !state.Gone() {
					return fmt.Errorf("the worker is %s", state)
				}
				return nil
			})
			worst = max(worst, c.Until(fmt.Sprintf("all agree on death %d, of %s", death, w.Host), agreeWithin, func() error { return lookEverywhere(t, c) }))
			c.RestartWorker(w)
			c.AwaitWorkers(6, 20*time.Second)
		}
		t.Logf("%d deaths; all ways to look agreed within %s", deathsOfOB05, worst)
	})
}

// lookEverywhere compares all ways to look at the workers with the leader's state.
func lookEverywhere(t *testing.T, c *testcluster.Cluster) error {
	t.Helper()
	want := make(map[string]string) // state by worker
	count := make(map[model.WorkerState]int)
	c.View().Workers(func(w *model.Worker) bool {
		want[string(w.ID)] = string(w.State)
		count[w.State]++
		return true
	})
	for _, m := range c.Masters() {
		for way, have := range map[string]map[string]string{
			"command line": byCommand(t, c, m), "JSON": byJSON(t, c, m), "page": byPage(t, c, m),
		} {
			if fmt.Sprint(have) != fmt.Sprint(want) {
				return fmt.Errorf("%s by %s: %v, want %v", m.Host, way, have, want)
			}
		}
		_, metrics := get(t, c, m, "/metrics")
		for _, state := range model.WorkerStates() {
			if line := fmt.Sprintf("hearth_workers{state=%q} %d\n", state, count[state]); !strings.Contains(metrics, line) {
				return fmt.Errorf("%s by metrics: no line %q", m.Host, line)
			}
		}
	}
	return nil
}

func byCommand(t *testing.T, c *testcluster.Cluster, m *testcluster.Master) map[string]string {
	t.Helper()
	cl := c.Client(m)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := cl.Workers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r.Staleness.Leader != m.ID() && r.Staleness.LagMilli > agreeWithin.Milliseconds() {
		t.Errorf("%s lags by %d ms", m.Host, r.Staleness.LagMilli)
	}
	return states(r.Workers)
}

func byJSON(t *testing.T, c *testcluster.Cluster, m *testcluster.Master) map[string]string {
	t.Helper()
	_, body := get(t, c, m, "/v1/workers")
	var v web.WorkersView
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	if v.Staleness.Master != m.ID() {
		t.Errorf("%s answers as %s", m.Host, v.Staleness.Master)
	}
	return states(v.Workers)
}

func states(workers []model.WorkerView) map[string]string {
	out := make(map[string]string)
	for _, w := range workers {
		out[string(w.ID)] = string(w.State)
	}
	return out
}

var workerRow = regexp.MustCompile(`<tr id="(worker-[^"]+)" data-v="([A-Z]+) `)

func byPage(t *testing.T, c *testcluster.Cluster, m *testcluster.Master) map[string]string {
	t.Helper()
	status, body := get(t, c, m, "/workers?rows=500")
	if status != http.StatusOK {
		t.Fatalf("%s: status %d", m.Host, status)
	}
	out := make(map[string]string)
	for _, row := range workerRow.FindAllStringSubmatch(body, -1) {
		out[row[1]] = row[2]
	}
	return out
}

// Whoever leads, page and metrics say so on every master within two seconds, from both sides of the change.
func TestSimOB03TheNewLeaderIsShownEverywhereAndTheOldOneNowhere(t *testing.T) {
	testcluster.RunSeed(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		for range 3 {
			c.KillMaster(leader)
			next := c.AwaitLeader(5*time.Second, leader)
			c.Until("all say who leads", agreeWithin, func() error {
				for _, m := range c.Masters() {
					_, page := get(t, c, m, "/")
					if !regexp.MustCompile(`<tr id="` + string(next.ID()) + `" data-v="leader`).MatchString(page) {
						return fmt.Errorf("the page of %s has no leader %s", m.Host, next.Host)
					}
					_, metrics := get(t, c, m, "/metrics")
					want := []string{"hearth_master_leading 0\n", `hearth_raft_state{state="follower"} 1`, `hearth_sessions{kind="worker"} 0`}
					if m == next {
						want = []string{"hearth_master_leading 1\n", `hearth_raft_state{state="leader"} 1`}
					}
					if i := slices.IndexFunc(want, func(line string) bool { return !strings.Contains(metrics, line) }); i >= 0 {
						return fmt.Errorf("metrics of %s lack %s", m.Host, want[i])
					}
				}
				return nil
			})
			c.RestartMaster(leader)
			leader = c.Settled(30 * time.Second)
		}
	})
}
