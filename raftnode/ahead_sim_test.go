package raftnode

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The disks of leader and follower work at the same time.
func TestSimACommitTakesTheTimeOfOneDiskNotOfTwo(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		const write = 10 * time.Millisecond
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		r.setDisk(func(*member, string) error { time.Sleep(write); return nil })
		lead := r.leader()
		for range 20 {
			began := time.Now()
			if _, err := lead.node.Propose(t.Context(), command("")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < write || took >= 2*write {
				t.Errorf("a commit took %s with disks that take %s", took, write)
			}
		}
		r.level()
	})
}

// Followers that have an entry do not make it committed while the leader's disk
// does not have it: the library counts the leader as one of the majority.
func TestSimNothingIsCommittedBeforeTheLeaderHasWrittenIt(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		lead := r.leader()
		term := lead.node.Term()
		release := make(chan struct{})
		r.setDisk(func(m *member, what string) error {
			if m == lead && strings.Contains(what, "append") {
				<-release
			}
			return nil
		})
		applied := lead.fsm.View().Index()
		answered := make(chan error, 1)
		go func() {
			_, err := lead.node.Propose(context.Background(), command("held"))
			answered <- err
		}()
		behind := 0
		eventually(t, "the entry at every follower", 2*time.Second, func() bool {
			behind = 0
			for _, m := range r.members {
				if last, err := m.node.ahead.LogStore.LastIndex(); m != lead && (err != nil || last <= applied) {
					behind++
				}
			}
			return behind == 0
		})
		time.Sleep(3 * time.Second)
		if len(answered) > 0 || lead.fsm.View().Index() > applied {
			t.Error("an entry was committed that the leader has not on its disk")
		}
		close(release)
		r.setDisk(nil)
		if err := <-answered; err != nil {
			t.Errorf("once it is written: %v", err)
		}
		synctest.Wait()
		if now := lead.node.Term(); now != term {
			t.Errorf("the term went from %d to %d", term, now)
		}
		r.level()
	})
}

// A leader that dies before its disk has an entry comes back without it and
// agrees with the others, whatever they have made of it.
func TestSimALeaderThatDiesAheadOfItsDiskAgreesAfterwards(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		for range 5 {
			lead := r.leader()
			release := make(chan struct{})
			r.setDisk(func(m *member, what string) error {
				if m == lead && strings.Contains(what, "append") {
					<-release
					return context.Canceled // nothing of it reaches the disk
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			if _, err := lead.node.Propose(ctx, command("lost")); err == nil {
				t.Error("acknowledged what is not on the leader's disk")
			}
			cancel()
			r.net.Crash(lead.host)
			close(release)
			r.close(lead)
			r.setDisk(nil)
			r.net.Restart(lead.host)
			r.start(lead)
			r.propose("after")
			r.level()
		}
	})
}
