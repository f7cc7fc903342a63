//go:build linux

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// sayWithin is how soon command line, API and page must say why something waits; gone is how soon after a placement none
// of them may say it any more.
const (
	sayWithin  = 5 * time.Second
	goneWithin = time.Second
)

// fetched is what a page or an answer of a master's web server holds.
func (s *shelf) fetched(m *testcluster.Master, path string) string {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return s.c.Net.Host("operator").Dial(ctx, addr)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("http://" + m.HTTPAddr() + path)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// everyWay is what each way to look says of an application: command, its JSON, the API, the page.
func (s *shelf) everyWay(m *testcluster.Master, app model.AppID) map[string]string {
	s.t.Helper()
	return map[string]string{
		"hearth why": s.run("why", string(app)), "hearth queue": s.run("queue"),
		"API": s.fetched(m, "/v1/why/"+string(app)), "page": s.fetched(m, "/apps/"+string(app)), "page of the queue": s.fetched(m, "/queue"),
	}
}

// says waits until every way to look has a text.
func (s *shelf) says(m *testcluster.Master, app model.AppID, text string) {
	s.t.Helper()
	s.c.Until(fmt.Sprintf("%q of %s", text, app), sayWithin, func() error {
		for way, got := range s.everyWay(m, app) {
			if !strings.Contains(got, text) {
				return fmt.Errorf("%s says\n%s", way, got)
			}
		}
		return nil
	})
}

// SC-10, with its sizes: no worker can ever fit, and by how much, is told apart from busy, and from whom.
func TestSimSC10CommandAPIAndPageSayThatNoWorkerFitsAndWhoHoldsWhat(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(1)
		m := c.Settled(20 * time.Second)
		s := newShelf(t, c, m)
		for _, host := range []string{"w1", "w2"} {
			c.StartWorkerOn(host, workerd.Config{Cores: 4, MemoryMiB: 8192})
		}
		c.AwaitWorkers(2, 10*time.Second)
		large := s.submit("large", model.Profile{Cores: 1, MemoryMiB: 16384}, model.RestartAlways, "sleep", "forever")
		s.says(m, large, "needs 16 GiB per executor; the largest worker offers 8 GiB")
		var why model.Why
		if err := json.Unmarshal([]byte(s.fetched(m, "/v1/why/"+string(large))), &why); err != nil {
			t.Fatal(err)
		}
		if r := why.Reasons[0]; r.Code != model.WhyNeverFits || !r.Never || r.Missing != 8192 {
			t.Errorf("the API says %+v, want that it never fits and lacks 8192 MiB", r)
		}

		var holders []model.AppID
		for i := range 2 {
			holders = append(holders, s.submit(fmt.Sprint("holds ", i), model.Profile{Cores: 4, MemoryMiB: 1024}, model.RestartAlways, "sleep", "forever"))
		}
		for _, id := range holders {
			c.Running(id, 1, 10*time.Second)
		}
		busy := s.submit("busy", model.Profile{Cores: 1, MemoryMiB: 1024}, model.RestartAlways, "sleep", "forever")
		for _, id := range holders {
			s.says(m, busy, string(id))
		}
		if v := asked[model.Why](s, "why", string(busy)); v.Reasons[0].Code != model.WhyBusy || v.Reasons[0].Never {
			t.Errorf("why says %+v, want that it is busy", v.Reasons)
		}
		for _, id := range append(holders, large) {
			c.Kill(id)
		}
	})
}

// UX-03: a job that cannot be placed is submitted again, rightly this time. A second after the placement nobody says of
// it what was true of the first one, nor lists it among what waits.
func TestSimUX03NoReasonOfAnEarlierSubmissionIsShownForOneThatRuns(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(1)
		m := c.Settled(20 * time.Second)
		s := newShelf(t, c, m)
		c.StartWorkerOn("w1", workerd.Config{Cores: 4, MemoryMiB: 8192})
		c.AwaitWorkers(1, 10*time.Second)
		const old = "16 GiB"
		wrong := s.submit("job, wrong", model.Profile{Cores: 1, MemoryMiB: 16384}, model.RestartAlways, "sleep", "forever")
		s.says(m, wrong, old)
		c.Kill(wrong)
		right := s.submit("job", model.Profile{Cores: 1, MemoryMiB: 1024}, model.RestartAlways, "sleep", "forever")
		c.Until("it is placed", 10*time.Second, func() error {
			placed := false
			c.View().Executors(right, func(*model.Executor) bool { placed = true; return false })
			if !placed {
				return errors.New("it is not")
			}
			return nil
		})
		c.Until("nobody says what was true before", goneWithin, func() error {
			for way, got := range s.everyWay(m, right) {
				if strings.Contains(got, old) || strings.Contains(got, string(model.WhyNeverFits)) {
					return fmt.Errorf("%s says\n%s", way, got)
				}
			}
			return nil
		})
		if v := asked[model.WaitingView](s, "queue"); len(v.Waiting) > 0 {
			t.Errorf("%+v wait", v.Waiting)
		}
		c.Kill(right)
	})
}
