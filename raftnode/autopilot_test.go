package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// pilotRig plays the daemon and gossip for the autopilot of a rig: whoever
// leads runs it.
type pilotRig struct {
	*rig
	at   *member
	stop func()
	lost map[model.MasterID]bool // gossip calls them failed; set before follow
}

func (p *pilotRig) known() []KnownServer {
	var out []KnownServer
	for id, known := range p.listed() {
		out = append(out, KnownServer{ID: id, Addr: known.addr, Alive: known.node != nil && !p.lost[id]})
	}
	return out
}

func (p *pilotRig) stats(_ context.Context, id model.MasterID, _ string) (uint64, uint64, time.Duration, error) {
	if node := p.listed()[id].node; node != nil {
		s := node.Stats()
		return s.LastIndex, s.LastTerm, s.LastContact, nil
	}
	return 0, 0, 0, errors.New("unreachable")
}

// follow moves the autopilot to the present leader.
func (p *pilotRig) follow() {
	lead := p.leader()
	if lead == p.at {
		return
	}
	p.halt()
	p.at = lead
	p.stop = lead.node.StartAutopilot(context.Background(), AutopilotDeps{KnownServers: p.known, PeerStats: p.stats})
}

func (p *pilotRig) halt() {
	if p.stop != nil {
		p.stop()
	}
	p.at, p.stop = nil, nil
}

func (p *pilotRig) voters() (n int) {
	servers, _, err := p.leader().node.Servers()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range servers {
		if s.Voter {
			n++
		}
	}
	return n
}

// HA-18: five masters die one every 30 s. The dead are removed down to three
// voters and no further; two of three still serve; one of three serves nobody.
func TestSimDeadMastersAreRemovedDownToTheFloor(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 5, nil)
		p := &pilotRig{rig: r}
		defer r.stop()
		defer p.halt()
		p.follow()
		for dead, want := range []int{4, 3, 3} {
			victim := r.members[dead]
			if victim == p.at {
				p.halt()
			}
			r.crash(victim)
			p.follow()
			time.Sleep(30 * time.Second)
			p.follow()
			if got := p.voters(); got != want {
				t.Fatalf("voters after %d deaths: got %d, want %d", dead+1, got, want)
			}
			r.propose("after death " + strconv.Itoa(dead+1))
		}
		p.halt()
		r.crash(r.members[3])
		last := r.members[4].node
		eventually(t, "the last master to lead no more", 30*time.Second, func() bool {
			_, leading := last.Belief()
			return !leading
		})
		if _, err := last.Propose(t.Context(), command("too late")); !errors.Is(err, model.ErrNotLeader) {
			t.Errorf("propose to one of three: got %v, want ErrNotLeader", err)
		}
	})
}

// A wiped master that comes back with a new id takes the place of its old self
// once it has caught up: one in, one out, never below the floor.
func TestSimAReplacementGetsTheVoteOfTheDeadMaster(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		p := &pilotRig{rig: r}
		defer r.stop()
		defer p.halt()
		old := r.members[0]
		r.crash(old)
		p.follow()
		time.Sleep(30 * time.Second)
		if got := p.voters(); got != 3 {
			t.Fatalf("voters before the replacement: got %d, want 3", got)
		}
		fresh := &member{id: "m9", dir: t.TempDir(), host: old.host, addr: old.addr}
		r.members = append(r.members, fresh)
		r.start(fresh)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.leader().node.AddNonvoter(ctx, fresh.id, fresh.addr); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the replacement votes and the dead master is gone", 2*time.Minute, func() bool {
			servers, _, err := r.leader().node.Servers()
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[model.MasterID]bool)
			voters := 0
			for _, s := range servers {
				got[s.ID] = s.Voter
				if s.Voter {
					voters++
				}
			}
			if voters < 3 {
				t.Fatalf("voters: got %v, want at least 3 at every step", servers)
			}
			_, oldThere := got[old.id]
			return got[fresh.id] && !oldThere
		})
		p.follow()
		if health := p.at.node.Health(); len(health) < 3 {
			t.Errorf("health: got %+v, want an opinion on three members", health)
		}
		r.propose("after")
		r.level()
	})
}

// HA-15: transfers that lose their quorum half-way; the node that started them
// takes writes soon after it leads again.
func TestSimAnInterruptedTransferLeavesNothingBehind(t *testing.T) {
	simulate(t, func(t *testing.T, seed int64) {
		r := newRig(t, seed, 3, nil)
		defer r.stop()
		for round := range 5 {
			lead := r.leader()
			wait := make(chan struct{})
			go func() {
				defer close(wait)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = lead.node.TransferLeadership(ctx, "") // may fail, may hang: that is the case
			}()
			time.Sleep(time.Duration((seed*37+int64(round)*53)%200) * time.Millisecond / 100)
			r.net.Isolate(lead.host)
			time.Sleep(3 * time.Second)
			r.net.Heal()
			<-wait
			eventually(t, "the node takes writes as leader again", 5*time.Minute, func() bool {
				now := r.leader()
				if now != lead {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_ = now.node.TransferLeadership(ctx, lead.id)
					return false
				}
				start := time.Now()
				r.propose(fmt.Sprintf("round %d", round))
				return time.Since(start) < 10*time.Second
			})
		}
		r.level()
	})
}
