//go:build linux

package workerd

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// lineCounter counts what is logged with a text.
type lineCounter struct {
	mu    sync.Mutex
	text  string
	count int
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count += strings.Count(string(p), l.text)
	return len(p), nil
}

// threeSleepers runs three executors and returns their processes.
func threeSleepers(s *fakeSession) []int {
	var pids []int
	for i := range 3 {
		s.run(ref(i), "/bin/sleep", "1000")
	}
	for i := range 3 {
		pids = append(pids, s.reported(ref(i), model.ExecutorRunning).PID)
	}
	return pids
}

func TestHA28AMasterThatIsBehindKillsNothing(t *testing.T) {
	leader := newFakeLeader(t)
	refusals := &lineCounter{text: "order refused"}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: refusals})
	newLoggedRig(t, logger, leader.addr)
	s := leader.welcomedAt(7, 9000)
	pids := threeSleepers(s)
	killAll := func(s *fakeSession) {
		for i := range pids {
			s.kill(ref(i), 0)
		}
	}
	for i := range 100 {
		s.end <- nil // the master restarts
		stale := leader.welcomedAt(7, 8000)
		killAll(stale)
		stale.refused()
		s = leader.welcomedAt(7, 9001+uint64(i))
		s.fence.ViewIndex = 8000
		killAll(s)
	}
	s.fence.ViewIndex = 9200
	s.obeyed(ref(9))
	for i, pid := range pids {
		if !isRunning(pid) || s.report(ref(i)).State.Terminal() {
			t.Errorf("executor %d (process %d) was ended by a master that was behind", i, pid)
		}
	}
	refusals.mu.Lock()
	defer refusals.mu.Unlock()
	if refusals.count != 1 {
		t.Errorf("the refusals were logged %d times, want once", refusals.count)
	}
}

func TestHA29OrdersOfAnOldTermStartAndEndNothing(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	started := filepath.Join(t.TempDir(), "started")
	rnd := rand.New(rand.NewPCG(29, 29))
	flood := func(s *fakeSession) {
		for range 500 {
			fence := s.fence
			fence.Term = rnd.Uint64N(7)
			fence.ViewIndex = rnd.Uint64N(100_000)
			target := ref(rnd.IntN(10))
			if rnd.IntN(2) == 0 {
				s.send(model.WorkerDown{Kill: &model.KillOrder{Fence: fence, Ref: target, GraceMilli: rnd.Int64N(1000), Reason: "old"}})
				continue
			}
			o := s.launch(target, "/bin/sh", "-c", "touch "+started+"; exec sleep 1000")
			o.Fence = fence
			s.send(model.WorkerDown{Launch: o})
		}
	}
	check := func(when string, pids []int) {
		t.Helper()
		if _, err := os.Stat(started); err == nil {
			t.Errorf("%s: an order of an old term started a process", when)
		}
		now, err := keeper.Orphans(string(r.worker.ID()))
		if err != nil {
			t.Fatal(err)
		}
		var running []int
		for _, p := range now {
			running = append(running, p.PID)
		}
		slices.Sort(running)
		slices.Sort(pids)
		if !slices.Equal(running, pids) {
			t.Errorf("%s: processes %v run, want %v", when, running, pids)
		}
	}
	s := leader.welcomed(7)
	pids := threeSleepers(s)
	flood(s)
	s.obeyed(ref(20))
	check("in the session of term 7", pids)

	if _, err := r.control().Restart(t.Context(), Handover{}); err != nil {
		t.Fatal(err)
	}
	_ = r.over()
	r.start()
	old := leader.welcomed(6) // right after the restart, by the old leader itself
	flood(old)
	old.refused()
	s = leader.welcomed(7)
	flood(s)
	s.obeyed(ref(21))
	check("after a restart", pids)
	s.kill(ref(0), time.Second)
	s.reported(ref(0), model.ExecutorKilled)
}

func TestHA35AWorkerNamesBothClustersOnceAndRejoinsWhenToldTo(t *testing.T) {
	first, second := newFakeLeader(t), newFakeLeader(t)
	foreign := model.ClusterIdentity{ID: "hearth-b", Epoch: 4}
	told := &lineCounter{text: "`hearth worker rejoin`"}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: told})
	second.set(func() { second.leads = false })
	r := newLoggedRig(t, logger, first.addr, second.addr)
	s := first.welcomed(7)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	for _, l := range []*fakeLeader{first, second} {
		l.set(func() { l.leads, l.cluster = true, foreign })
	}
	if _, err := r.control().Rejoin(t.Context(), clusterA1.ID); err == nil {
		t.Error("a worker with a session gave up its cluster")
	}
	s.end <- nil
	eventually(t, "both masters have refused it, many times", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		second.mu.Lock()
		defer second.mu.Unlock()
		return first.refusals > 3 && second.refusals > 3
	})
	now, err := r.control().Status(t.Context())
	if err != nil || now.ForeignCluster != foreign.ID || now.Cluster != clusterA1.ID {
		t.Errorf("status %+v, %v", now, err)
	}
	told.mu.Lock()
	if told.count != 1 {
		t.Errorf("the way out was named %d times, want once", told.count)
	}
	told.mu.Unlock()
	if !isRunning(pid) {
		t.Error("an executor was ended without an order")
	}
	if _, err := r.control().Rejoin(t.Context(), "another"); err == nil {
		t.Error("a cluster was given up that is not the worker's")
	}
	if _, err := OpenStopped(r.cfg.DataDir); err == nil {
		t.Error("the directory of a running worker was opened")
	}
	if _, err := r.control().Rejoin(t.Context(), clusterA1.ID); err != nil {
		t.Fatal(err)
	}
	var s2 *fakeSession
	select {
	case s2 = <-first.sessions:
	case s2 = <-second.sessions:
	case <-time.After(patience):
		t.Fatal("no session after the rejoin")
	}
	if h := s2.hello; !h.Cluster.IsZero() || h.HighestTerm != 0 || len(h.Inventory) != 1 || h.Inventory[0].PID != pid {
		t.Errorf("hello after the rejoin %+v", h)
	}
	s2.fence = model.Fence{Cluster: foreign, Term: 1, Incarnation: s2.hello.Incarnation, ViewIndex: 5}
	s2.send(model.WorkerDown{Welcome: &model.WorkerWelcome{Fence: s2.fence, Leader: "m1", BeatMilli: 50, DeathMilli: 2000}})
	s2.kill(ref(0), time.Second)
	s2.reported(ref(0), model.ExecutorKilled)
}

func TestHA35AStoppedWorkerRejoinsToo(t *testing.T) {
	if _, err := OpenStopped(t.TempDir()); err == nil {
		t.Error("a directory without a worker was opened")
	}
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	leader.welcomed(7).obeyed(ref(0))
	r.stop()
	st, err := OpenStopped(r.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if st.Cluster() != clusterA1 {
		t.Errorf("cluster %s", st.Cluster())
	}
	if err := st.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	if h := leader.welcomed(1).hello; !h.Cluster.IsZero() || h.HighestTerm != 0 || h.Worker != r.worker.ID() {
		t.Errorf("hello %+v", h)
	}
}
