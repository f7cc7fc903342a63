package raftnode

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// still says whether a member votes.
func (p *pilotRig) still(id model.MasterID) bool {
	p.t.Helper()
	servers, _, err := p.leader().node.Servers()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range servers {
		if s.ID == id {
			return s.Voter
		}
	}
	return false
}

// Given four voters of which gossip calls one failed, and one that gives the
// leader its figures whenever it is asked: whether it stays is decided by what
// the figures say of its Raft. While gossip sees it, it stays (HA-13).
func TestSimAVoterThatOnlyGivesItsFiguresIsRemovedOnceItsRaftHangs(t *testing.T) {
	for name, c := range map[string]struct {
		gossipFails bool
		hangs       func(r *rig, victim *member) (release func())
		stays       bool
	}{
		"gossip fails, Raft works":                     {gossipFails: true, hangs: nothingHangs, stays: true},
		"gossip fails, Raft's port is behind firewall": {gossipFails: true, hangs: portHangs},
		"gossip fails, Raft's disk hangs":              {gossipFails: true, hangs: diskHangs},
		"gossip works, Raft's port is behind firewall": {hangs: portHangs, stays: true},
		"gossip works, Raft's disk hangs":              {hangs: diskHangs, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				r := newRig(t, seed, 4, nil)
				p := &pilotRig{rig: r, lost: make(map[model.MasterID]bool)}
				defer r.stop()
				defer p.halt()
				victim := r.follower()
				p.lost[victim.id] = c.gossipFails
				p.follow()
				time.Sleep(10 * time.Second)
				defer c.hangs(r, victim)()
				for second := range 30 {
					if second < int(DefaultDeadServerGrace/time.Second) && !p.still(victim.id) {
						t.Fatalf("it was removed %d s after its Raft began to hang, before the grace was over", second)
					}
					r.propose("write " + strconv.Itoa(second))
					time.Sleep(time.Second)
				}
				if got := p.still(victim.id); got != c.stays {
					t.Errorf("30 s later: it votes: %v, want %v", got, c.stays)
				}
				r.propose("the others go on")
			})
		})
	}
}

func nothingHangs(*rig, *member) func() { return func() {} }

func portHangs(r *rig, victim *member) func() {
	r.net.Isolate(victim.host)
	return r.net.Heal
}

func diskHangs(r *rig, victim *member) func() {
	release := make(chan struct{})
	r.setDisk(func(m *member, _ string) error {
		if m == victim {
			<-release
		}
		return nil
	})
	return sync.OnceFunc(func() { close(release) })
}

func TestFiguresShowAWorkingRaftOnlyIfItHearsTheLeaderAndItsLogGrowsWithIt(t *testing.T) {
	t0 := time.Now()
	now := t0.Add(time.Minute)
	for name, c := range map[string]struct {
		index, leader uint64
		contact       time.Duration
		works         bool
	}{
		"level with the leader":            {index: 7, leader: 7, works: true},
		"behind, but growing":              {index: 8, leader: 900, works: true},
		"behind, and as it was":            {index: 7, leader: 8},
		"level, and the leader is unheard": {index: 7, leader: 7, contact: 3 * time.Second},
		"cut back":                         {index: 6, leader: 8},
	} {
		t.Run(name, func(t *testing.T) {
			f := figures{index: 7, works: t0}.note(now, c.index, c.leader, c.contact, 2*time.Second)
			want := figures{index: c.index, works: t0}
			if c.works {
				want.works = now
			}
			if f != want {
				t.Errorf("got %+v, want %+v", f, want)
			}
		})
	}
}
