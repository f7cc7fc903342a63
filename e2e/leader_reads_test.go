//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/rpc"
)

const (
	// staleVariable sets the number of rounds of the test of stale reads.
	staleVariable = "HEARTH_STALE_ROUNDS"
	staleDefault  = 3

	pollKills = 20

	pollStatusEvery  = 200 * time.Millisecond
	pollStatusWithin = time.Second
)

// A leader is frozen while another value is written, and is asked in the moment
// it wakes up; then all masters are killed at once and asked as soon as they
// can be dialled.
func TestHA37AStrongReadNeverReturnsTheValueBefore(t *testing.T) {
	skipLong(t)
	rounds, _ := numberFrom(t, staleVariable, staleDefault)
	c := newCluster(t, size{workers: 1})
	e, ports := newEars(t), newReservation(t)
	reads := 0
	for n := range rounds {
		old, _ := e.whole(t, c)
		app := c.register(t, commandSpec("old value", 4096, "true")) // it waits
		old.stop(t)
		cl, err := c.access.client("", grpcAddrs(c.others(old))...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		err = cl.KillApp(ctx, app, "the new value")
		cancel()
		_ = cl.Close()
		if err != nil {
			t.Fatalf("round %d: write the new value: %v", n, err)
		}
		old.cont(t)
		reads += readsFresh(t, e, string(app), old)
		if n > 0 {
			continue
		}
		for _, m := range c.masters {
			m.proc.signal(t, syscall.SIGKILL)
		}
		for i, m := range c.masters {
			m.proc.awaitEnd(t, goneWithin)
			ports.keep(t, m)
			c.masters[i] = c.launchThere(t, m)
		}
		reads += readsFresh(t, e, string(app), c.masters...)
	}
	t.Logf("%d strong reads in %d rounds, none of them stale", reads, rounds)
}

// readsFresh asks masters for an application that was killed, several times at
// once, until each of them has answered often enough.
func readsFresh(t *testing.T, e *ears, app string, masters ...*node) int {
	t.Helper()
	const readers, each = 4, 5
	var wg sync.WaitGroup
	var done atomic.Int64
	for _, m := range masters {
		svc := rpc.ClusterClient(e.to(t, m))
		for range readers {
			wg.Go(func() {
				deadline := time.Now().Add(settleWithin)
				for answered := 0; answered < each; {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					v, err := svc.App(ctx, rpc.AppRequest{ID: app, Strong: true})
					cancel()
					switch {
					case err == nil && !v.Terminal:
						t.Errorf("%s answered with the value before: %s", m.name, v.State)
						return
					case err == nil:
						answered++
						done.Add(1)
					case time.Now().After(deadline):
						t.Errorf("%s: no answer within %s: %v", m.name, settleWithin, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return int(done.Load())
}

// poll is one question for the status to all masters at once.
type poll struct {
	at       time.Duration // since the start
	answered int           // in time
	stale    int           // of those, marked as without a leader
	wrong    string        // an answer that is marked wrongly
}

// Whoever asks for the status while leaders die is answered by some master.
func TestHA36SomeMasterAnswersEachPollWhileLeadersAreKilled(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	e, ports := newEars(t), newReservation(t)
	e.whole(t, c)
	stop := c.pollStatus(t)
	for range pollKills {
		leader, _ := e.whole(t, c)
		leader.proc.kill9(t)
		eventually(t, settleWithin, "another master leads", func() string {
			for _, m := range c.others(leader) {
				if st, err := e.ask(t, m); err == nil && string(st.Leader) == m.ID {
					return ""
				}
			}
			return "none does"
		})
		ports.keep(t, leader)
		c.launchThere(t, leader)
	}
	e.whole(t, c)
	polls := stop()
	stale := 0
	for _, p := range polls {
		stale += min(1, p.stale)
		if p.answered == 0 {
			t.Errorf("no master answered the poll after %s within %s", p.at.Round(time.Millisecond), pollStatusWithin)
		}
		if p.wrong != "" {
			t.Errorf("the poll after %s: %s", p.at.Round(time.Millisecond), p.wrong)
		}
	}
	t.Logf("%d polls during %d kills, %d of them with an answer from a master without a leader", len(polls), pollKills, stale)
}

// pollStatus asks every master for its status at a fixed pace until it is told
// to stop, and then returns what came of it.
func (c *cluster) pollStatus(t *testing.T) (stop func() []poll) {
	t.Helper()
	var asked []rpc.ClusterService
	for _, m := range c.masters { // connections of their own: nothing stands before the question
		conn, err := c.access.dial(m.GRPC, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		asked = append(asked, rpc.ClusterClient(conn))
	}
	quit, result := make(chan struct{}), make(chan []poll, 1)
	go func() {
		began := time.Now()
		tick := time.NewTicker(pollStatusEvery)
		defer tick.Stop()
		var wg sync.WaitGroup
		var polls []*poll
		for run := true; run; {
			p := &poll{at: time.Since(began)}
			polls = append(polls, p)
			wg.Go(func() { p.ask(asked) })
			select {
			case <-quit:
				run = false
			case <-tick.C:
			}
		}
		wg.Wait()
		var out []poll
		for _, p := range polls {
			out = append(out, *p)
		}
		result <- out
	}()
	return func() []poll {
		close(quit)
		return <-result
	}
}

// ask puts the question to all masters at once and waits for their answers.
func (p *poll) ask(masters []rpc.ClusterService) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, svc := range masters {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), pollStatusWithin)
			defer cancel()
			v, err := svc.Status(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			p.answered++
			none, marked := v.Staleness.Leader == "", v.Staleness.LeaderlessFor > 0
			if none {
				p.stale++
			}
			if none != marked {
				p.wrong = fmt.Sprintf("%s names the leader %q and says that there has been none for %d ms",
					v.Staleness.Master, v.Staleness.Leader, v.Staleness.LeaderlessFor)
			}
		})
	}
	wg.Wait()
}
