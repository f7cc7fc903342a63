package driver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
)

// unlinked waits until the driver knows that it has no session.
func (r *rig) unlinked() {
	r.t.Helper()
	eventually(r.t, "the driver knows that nobody leads", func() error {
		if !r.news.linkedSince().IsZero() {
			return errors.New("it has a session")
		}
		return nil
	})
}

// An executor that was launched just before all masters went down is not
// announced to its driver until one is back. Were it turned away, it would
// exit with an error and count against its application.
func TestHA32AnExecutorThatNobodyCouldAnnounceWaitsForALeader(t *testing.T) {
	t.Parallel()
	const announceWait = 100 * time.Millisecond
	r := start(t, func(c *Config) { c.AnnounceWait = announceWait })
	addr := r.address()
	r.cluster.behead()
	r.unlinked()
	began := time.Now()
	launched, stranger := connect(t, addr, helloOf(0)), connect(t, addr, helloOf(7))
	for range 4 * 3 { // a beat comes at least twice per announceWait
		select {
		case m := <-launched.down:
			if m.BeatAck == nil {
				t.Fatalf("an executor that waits got %+v, want beats", m)
			}
		case err := <-launched.ended:
			t.Fatalf("it was turned away after %s: %v", time.Since(began), err)
		case <-time.After(patience):
			t.Fatal("an executor that waits hears nothing and takes the driver for gone")
		}
	}
	if waited := time.Since(began); waited < 2*announceWait {
		t.Fatalf("only %s have passed: the test shows nothing", waited)
	}
	r.cluster.place(0, 1) // before there is a leader: what it announces first is not to depend on the test being quick
	r.cluster.led()
	if m := launched.next(); m.Welcome == nil {
		t.Errorf("message %+v, want a welcome", m)
	}
	// A leader that does not announce has had its time.
	if err := stranger.refusal(); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the one whom no leader knows: %v, want %v", err, model.ErrNotFound)
	}
}

func TestHA32AnExecutorThatWasGivenUpWhileNobodyLedIsKilledLater(t *testing.T) {
	t.Parallel()
	cl := newCluster(t)
	c, err := client.New(client.Config{Masters: []string{cl.addr}})
	if err != nil {
		t.Fatal(err)
	}
	k := newKillList()
	k.timeout, k.retry = 50*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		k.run(ctx, c, testApp, hclog.NewNullLogger())
	}()
	defer func() {
		cancel()
		<-ran
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	cl.behead()
	k.add(3, silentTooLong)
	k.add(5, silentTooLong)
	calls := 0
	eventually(t, "the first call has timed out and others have followed", func() error {
		calls = locked(cl, func() int { return cl.refusedKills })
		if calls < 20 {
			return fmt.Errorf("%d calls", calls)
		}
		return nil
	})
	cl.led()
	eventually(t, "the new leader is told", func() error {
		killed := locked(cl, func() []model.ExecutorID { return cl.killed })
		if len(killed) == 0 {
			return errors.New("no kill")
		}
		if diff := cmp.Diff([]model.ExecutorID{3, 5}, killed); diff != "" {
			t.Errorf("killed (-want +got):\n%s", diff)
		}
		return nil
	})
	eventually(t, "the list is empty", func() error {
		if left, _ := k.pending(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}
