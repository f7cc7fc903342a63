//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/model"
)

// wipeMasters kills all masters and starts them again, on the same addresses,
// without their data: the cluster is another one then.
func (c *cluster) wipeMasters(t *testing.T) {
	t.Helper()
	old := append([]*node(nil), c.masters...)
	for _, m := range old {
		m.proc.signal(t, syscall.SIGKILL)
	}
	for _, m := range old {
		m.proc.awaitEnd(t, goneWithin)
		if err := os.RemoveAll(c.dataDir(m)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range old {
		c.launchThere(t, m)
	}
	for _, m := range c.masters {
		eventually(t, settleWithin, m.name+" is ready", func() string {
			where, err := demo.ReadEndpoints(c.dataDir(m), demo.ReadyFile, m.proc.pid)
			if err != nil {
				return err.Error()
			}
			m.Endpoints = where // under another id
			return ""
		})
	}
	c.takeToken(t)
	eventually(t, settleWithin, "there is a cluster again", func() string {
		r := c.run(t, "status")
		if r.code != 0 {
			return r.stderr
		}
		return ""
	})
}

// HA-35: masters that have lost everything are another cluster. Workers neither
// obey it nor end anything by themselves; they name the way out, and after that
// the new leader ends what it does not know.
func TestHA35WorkersOfALostClusterWaitToBeToldToRejoin(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 4, cores: 2})
	app := c.run(t, "submit", "--executors", "8", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 8))
	lost := c.status(t).Cluster
	c.wipeMasters(t)
	now := c.status(t)
	if now.Cluster == lost || len(now.Workers) > 0 {
		t.Fatalf("cluster %s with workers %v, want another than %s and none", now.Cluster, now.Workers, lost)
	}
	for _, w := range c.workers {
		eventually(t, settleWithin, w.name+" knows that it is refused", func() string {
			if s := c.workerStatus(t, w, 3); s.Foreign != now.Cluster || s.Cluster != lost {
				return fmt.Sprintf("it is of %q and was refused by %q", s.Cluster, s.Foreign)
			}
			return ""
		})
	}
	// Several rounds of being refused, on each worker.
	steady(t, 8*time.Second, "all executors live on", func() string {
		for id, pid := range before {
			if zombie(pid) {
				return fmt.Sprintf("process %d of executor %d is gone", pid, id)
			}
		}
		return ""
	})
	for _, w := range c.workers {
		text, err := os.ReadFile(filepath.Join(c.dir, w.name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, lost) && strings.Contains(line, now.Cluster) && strings.Contains(line, "`hearth worker rejoin`") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%s names both clusters and the way out in %d lines, want 1", w.name, told)
		}
	}

	c.control(t, c.workers[0], "rejoin").wantCode(t, 2).wantStderr(t, lost, now.Cluster, "--yes")
	for n, w := range c.workers {
		if n == 3 { // one that does not run
			w.proc.signal(t, syscall.SIGTERM)
			w.proc.awaitEnd(t, settleWithin)
			c.control(t, w, "rejoin", append(c.tlsArgs(w), "--yes", "--masters", c.masterList)...).wantCode(t, 0).wantStderr(t, lost, now.Cluster)
			c.restart(t, w)
			continue
		}
		c.control(t, w, "rejoin", "--yes").wantCode(t, 0).wantStderr(t, lost, now.Cluster, "2 executors")
	}
	eventually(t, settleWithin, "the workers belong to the new cluster", func() string {
		alive := 0
		for _, w := range c.status(t).Workers {
			if w.State == model.WorkerAlive {
				alive++
			}
		}
		if alive != 4 {
			return fmt.Sprintf("%d of 4 are ALIVE", alive)
		}
		return ""
	})
	eventually(t, settleWithin, "the lost cluster's executors are gone", func() string {
		for id, pid := range before {
			if !zombie(pid) {
				return fmt.Sprintf("process %d of executor %d lives", pid, id)
			}
		}
		return ""
	})
	for _, w := range c.workers[:3] {
		text, err := os.ReadFile(filepath.Join(c.dir, w.name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "unknown to the cluster"); n < 2 {
			t.Errorf("%s was ordered to end %d executors, want its 2", w.name, n)
		}
	}
	c.control(t, c.workers[0], "rejoin", "--yes").wantCode(t, 4).wantStderr(t, "nothing to rejoin")
	more := c.run(t, "submit", "--executors", "8", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, more, 8)
}
