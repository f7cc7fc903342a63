package raftnode

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// setDisk changes what every member's disk does from now on.
func (r *rig) setDisk(disk func(m *member, what string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disk = disk
}

// follower returns a member that does not lead.
func (r *rig) follower() *member {
	lead := r.leader()
	for _, m := range r.members {
		if m != lead {
			return m
		}
	}
	r.t.Fatal("nobody follows")
	return nil
}

// failure waits for the reason why a member gave up.
func failureOf(t *testing.T, m *member, limit time.Duration) error {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-m.node.Failed():
		return err
	case <-timer.C:
		t.Fatalf("%s has not failed within %s", m.id, limit)
		return nil
	}
}

// HA-13: a leader whose disk hangs gives up, and at once another one leads.
func TestSimALeaderWhoseDiskHangsFailsAndFallsSilent(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		lead := r.leader()
		term := lead.node.Term()
		release := make(chan struct{})
		r.setDisk(func(m *member, _ string) error {
			if m == lead {
				<-release
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := lead.node.Propose(ctx, command("hangs")); err == nil {
			t.Error("a command was acknowledged that is on no disk of a majority")
		}
		if err := failureOf(t, lead, 10*time.Second); !strings.Contains(err.Error(), "raft store stalled") {
			t.Errorf("failed because of %v, want the stalled store", err)
		}
		eventually(t, "another leader", 10*time.Second, func() bool {
			for _, m := range r.members {
				if now, leads := m.node.Belief(); m != lead && leads && now > term {
					return true
				}
			}
			return false
		})
		close(release)
	})
}

// HA-13: a standby whose disk hangs lives, says so, and catches up afterwards.
func TestSimAStandbyWhoseDiskHangsLives(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		term, slow := r.leader().node.Term(), r.follower()
		release := make(chan struct{})
		r.setDisk(func(m *member, _ string) error {
			if m == slow {
				<-release
			}
			return nil
		})
		r.propose("during")
		time.Sleep(5 * time.Second)
		if stall, ok := slow.node.Stall(); ok {
			t.Errorf("after 5 s: got %+v, want nothing yet", stall)
		}
		time.Sleep(10 * time.Second)
		if stall, ok := slow.node.Stall(); !ok || stall.What != "append to the log" {
			t.Errorf("after 15 s: got %+v, %v, want the append", stall, ok)
		}
		r.propose("the others go on")
		close(release)
		r.propose("after")
		r.level()
		if stall, ok := slow.node.Stall(); ok {
			t.Errorf("after the disk is back: got %+v, want nothing", stall)
		}
		select {
		case err := <-slow.node.Failed():
			t.Errorf("the standby failed: %v", err)
		default:
		}
		if got := r.leader().node.Term(); got != term {
			t.Errorf("the term went from %d to %d", term, got)
		}
	})
}

// spareConnections leaves the leader with more than one idle connection to a
// member, so that messages are sent that nobody will answer.
func (r *rig) spareConnections(lead, to *member) {
	var asked sync.WaitGroup
	for range transportPool {
		asked.Go(func() {
			request := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(lead.id), Addr: []byte(lead.addr)}}
			err := lead.node.trans.RequestPreVote(raft.ServerID(to.id), routeTo(to.id, to.addr), request, &raft.RequestPreVoteResponse{})
			if err != nil {
				r.t.Errorf("ask %s for a pre-vote: %v", to.id, err)
			}
		})
	}
	asked.Wait()
}

// HA-15: a transfer whose target does not answer leaves the leader refusing
// everything. It gives up after five seconds, and asks to be opened again.
func TestSimALeaderWithAnUnfinishedTransferAsksForARestart(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		r.propose("before")
		r.level()
		lead, target := r.leader(), r.follower()
		r.spareConnections(lead, target)
		r.net.Partition(target.host, lead.host)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := lead.node.TransferLeadership(ctx, target.id); err == nil {
			t.Fatal("leadership went to a member that cannot be reached")
		}
		began, refused := time.Now(), 0
		var failed error
		for failed == nil && time.Since(began) < 10*time.Second {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if _, err := lead.node.Propose(ctx, command("refused")); err != nil {
				refused++
			}
			cancel()
			select {
			case failed = <-lead.node.Failed():
			default:
				time.Sleep(50 * time.Millisecond)
			}
		}
		if !errors.Is(failed, ErrStuck) {
			t.Fatalf("failed because of %v after %d refusals, want what asks for a restart", failed, refused)
		}
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second {
			t.Errorf("gave up after %s, want 5 s", took)
		}
		r.net.Heal()
		r.close(lead)
		r.start(lead)
		r.propose("after")
		r.level()
	})
}
