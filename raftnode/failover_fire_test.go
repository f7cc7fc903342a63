package raftnode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// fired orders a member to time out, by its own hand and in the name of each of
// the masters, and demands that nothing comes of it.
func (f *failoverRig) fired(m *member, names ...model.MasterID) {
	f.t.Helper()
	before := m.node.standing()
	err := m.node.trans.fire(func() error { return m.node.mayTimeOut(before) }, time.Second)
	if !errors.Is(err, model.ErrRefused) {
		f.t.Errorf("%s fires at itself as %+v: got %v, want a refusal", m.id, before, err)
	}
	for _, name := range names {
		err := f.sendTimeoutNow("stranger", "m9", name, m)
		if err == nil || !strings.Contains(err.Error(), "refused") {
			f.t.Errorf("%s as %+v, fired at in the name of %s: got %v, want a refusal", m.id, before, name, err)
		}
	}
	if now := m.node.standing(); now != before {
		f.t.Errorf("%s: got %+v after the order, want %+v as before", m.id, now, before)
	}
}

func TestSimAnOrderToTimeOutChangesNothingAtALeaderACandidateANonVoterOrARemovedMember(t *testing.T) {
	everybody := []model.MasterID{"m1", "m2", "m3", "m4", "m9"}
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 4, PresetLAN)
		defer r.stop()
		lead := r.settle()
		standby, demoted, removed := r.standbys(lead)[0], r.standbys(lead)[1], r.standbys(lead)[2]
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, m := range []*member{demoted, removed} {
			if err := lead.node.RemoveServer(ctx, m.id); err != nil {
				t.Fatal(err)
			}
		}
		if err := lead.node.AddNonvoter(ctx, demoted.id, demoted.addr); err != nil {
			t.Fatal(err)
		}
		r.propose("after the changes")
		eventually(t, "the non-voter has caught up", 10*time.Second, func() bool {
			return demoted.node.LastIndex() == lead.node.LastIndex()
		})
		term := lead.node.Term()

		r.fired(lead, everybody...)
		r.fired(demoted, everybody...)
		r.fired(removed, everybody...)
		var others []model.MasterID // a standby obeys its leader alone
		for _, id := range everybody {
			if id != lead.id {
				others = append(others, id)
			}
		}
		for _, name := range others {
			if err := r.sendTimeoutNow("stranger", "m9", name, standby); err == nil {
				t.Errorf("a standby obeyed %s", name)
			}
		}
		time.Sleep(5 * time.Second)
		if now, leading := lead.node.Belief(); now != term || !leading {
			t.Errorf("the leader: got term %d, leading %v; want term %d as before", now, leading, term)
		}

		r.kill(lead) // one of two voters
		eventually(t, "a candidate", 10*time.Second, func() bool { return standby.node.standing().state == raft.Candidate })
		r.fired(standby, everybody...)
		r.close(lead)
	})
}

func TestSimAStandbyObeysTheLeaderThatHandsOver(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		standby := r.standbys(lead)[0]
		if err := r.sendTimeoutNow("stranger", "m9", lead.id, standby); err != nil {
			t.Fatal(err)
		}
		if next, took := r.elected([]*member{standby}, time.Second); took > 50*time.Millisecond {
			t.Errorf("%s leads after %s, want at once", next.id, took)
		}
		r.propose("after")
		r.level()
	})
}

// A decision that was right when it was made is not carried out later.
func TestSimAnOrderToTimeOutIsJudgedWhenItArrives(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		slow, other := r.standbys(lead)[0], r.standbys(lead)[1]
		then := slow.node.standing()
		release := make(chan struct{})
		r.fill(func(m *member, what string) error {
			if m == slow && what == "append to the log" {
				<-release
			}
			return nil
		})
		r.propose("keeps the slow one busy")
		outcome := make(chan error, 1)
		r.open.Go(func() {
			outcome <- slow.node.trans.fire(func() error { return slow.node.mayTimeOut(then) }, 10*time.Second)
		})
		synctest.Wait()
		if err := lead.node.TransferLeadership(t.Context(), other.id); err != nil {
			t.Fatal(err)
		}
		r.elected([]*member{other}, time.Second)
		term := other.node.Term()
		time.Sleep(200 * time.Millisecond) // its heartbeats do not wait for the disk
		r.fill(nil)
		close(release)
		if err := <-outcome; !errors.Is(err, model.ErrRefused) {
			t.Errorf("got %v, want a refusal: there is another leader", err)
		}
		r.level()
		r.unchanged(other, term)
	})
}

// The library becomes a candidate first and notes second that it skips the
// pre-vote: a heartbeat in between would leave the note for another election.
func TestAHeartbeatWaitsForAnOrderToTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFailoverRig(t, 1, 1, PresetLAN)
		host := r.net.Host("apart")
		l, err := host.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		trans := newTransport(newHelloStream(NewStream(l, host.Dial, "", StreamTLS{}), "apart", ourCluster(), r.log), r.resolve, onDisk, r.log)
		beat := make(chan struct{})
		outcome := make(chan error, 1)
		go func() { outcome <- trans.fire(func() error { return nil }, time.Second) }()
		probe := <-trans.Consumer()
		probe.Respond(&raft.AppendEntriesResponse{}, nil)
		order := <-trans.Consumer()
		if _, ok := order.Command.(*raft.TimeoutNowRequest); !ok {
			t.Fatalf("got %T, want the order", order.Command)
		}
		go trans.heartbeat(raft.RPC{}, func(raft.RPC) { close(beat) })
		synctest.Wait()
		select {
		case <-beat:
			t.Error("a heartbeat was handled in the middle of the order")
		default:
		}
		order.Respond(&raft.TimeoutNowResponse{}, nil)
		if err := <-outcome; err != nil {
			t.Error(err)
		}
		<-beat
		if err := trans.Close(); err != nil {
			t.Error(err)
		}
		r.stop()
	})
}

// A library that does not take the order keeps neither it nor the heartbeats.
func TestSimAnOrderToTimeOutGivesUpOnABusyLibrary(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newFailoverRig(t, seed, 3, PresetLAN)
		defer r.stop()
		lead := r.settle()
		slow := r.standbys(lead)[0]
		term := lead.node.Term()
		release := make(chan struct{})
		r.fill(func(m *member, _ string) error {
			if m == slow {
				<-release
			}
			return nil
		})
		r.propose("keeps it busy")
		then := slow.node.standing()
		began := time.Now()
		err := slow.node.trans.fire(func() error { return slow.node.mayTimeOut(then) }, 40*time.Millisecond)
		if took := time.Since(began); !errors.Is(err, errBusy) || took > 100*time.Millisecond {
			t.Errorf("got %v after %s, want to be told that it is busy", err, took)
		}
		time.Sleep(5 * time.Second) // its heartbeats flow on
		r.fill(nil)
		close(release)
		r.level()
		r.unchanged(lead, term)
	})
}
