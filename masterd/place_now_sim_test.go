package masterd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// An application that is registered while nothing else is on its way has its
// executor in the same entry of the log: one write of the disk, not two in a row.
func TestSimAnApplicationIsPlacedByTheEntryThatRegistersIt(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		const write = 10 * time.Millisecond
		c.deps = func(_ int, d *Deps) { d.Disk = func(string) error { time.Sleep(write); return nil } }
		for n := range c.dirs {
			c.start(n)
		}
		leader, _ := c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		const tries = 5
		together := 0
		for i := range tries {
			// The log is quiet, but for what masters write once a second: each try is at another moment of it.
			time.Sleep(time.Second + 130*time.Millisecond)
			began := time.Now()
			reply, err := clusterService{leader.Master}.RegisterApp(context.Background(),
				rpc.CallInfo{RequestID: fmt.Sprint("r-", i), Base: leader.fsm.View().Index(), Principal: "ann"}, sleeper(fmt.Sprint("app ", i)))
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			leader.fsm.View().Executors(reply.App, func(e *model.Executor) bool {
				if e.ChangeIndex == reply.Index && took < 2*write {
					together++
				}
				return true
			})
		}
		if together < tries-1 {
			t.Errorf("of %d applications %d were placed by the entry that registered them, in the time of one write", tries, together)
		}
		w.stop()
		c.agree()
	})
}

// Registrations that meet are placed by the usual pass, in the order of their
// entries, and none of them gets more than it asked for.
func TestSimRegistrationsThatMeetAreEachPlacedOnce(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		c.deps = func(_ int, d *Deps) { d.Disk = func(string) error { time.Sleep(5 * time.Millisecond); return nil } }
		for n := range c.dirs {
			c.start(n)
		}
		leader, _ := c.settled(20 * time.Second)
		w := newSimWorker(c, "w1") // 8 cores
		w.connect()
		time.Sleep(time.Second)
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Millisecond)
				_, err := clusterService{leader.Master}.RegisterApp(context.Background(),
					rpc.CallInfo{RequestID: fmt.Sprint("m-", i), Base: leader.fsm.View().Index()}, sleeper(fmt.Sprint("app ", i)))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		time.Sleep(2 * time.Second)
		placed, last := 0, true
		leader.fsm.View().ActiveApps(func(a *model.App) bool {
			n := 0
			leader.fsm.View().Executors(a.ID, func(*model.Executor) bool { n++; return true })
			if n > 1 {
				t.Errorf("%s wants one executor and has %d", a.ID, n)
			}
			if n == 1 && !last {
				t.Errorf("%s has an executor, and one that came before it waits", a.ID)
			}
			placed, last = placed+n, n == 1
			return true
		})
		if placed != 8 {
			t.Errorf("%d executors are placed on 8 cores", placed)
		}
		w.stop()
		c.agree()
	})
}
