package masterd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

const (
	// alarmTick is how often what can be wrong is looked at.
	alarmTick = time.Second
	// stuckLimit is how long the log of a living voter may be behind without
	// advancing.
	stuckLimit = 10 * time.Second
)

// alarmBook lists what this master has found wrong, for as long as it is so.
// One line of the log says when it began and one when it is over. Safe for
// concurrent use.
type alarmBook struct {
	log  hclog.Logger
	wall func() time.Time

	mu     sync.Mutex
	active map[alarmKey]*alarm
}

type alarmKey struct {
	kind    model.AlarmKind
	subject string
}

type alarm struct {
	text  string
	since time.Time // monotonic
	wall  time.Time
}

func newAlarmBook(log hclog.Logger, wall func() time.Time) *alarmBook {
	return &alarmBook{log: log, wall: wall, active: make(map[alarmKey]*alarm)}
}

// set makes the alarms of one kind those in texts, by subject.
func (b *alarmBook) set(kind model.AlarmKind, texts map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, a := range b.active {
		if _, still := texts[key.subject]; key.kind == kind && !still {
			delete(b.active, key)
			b.log.Info("alarm is over", "alarm", string(kind), "about", key.subject, "after", time.Since(a.since).Round(time.Second).String())
		}
	}
	for subject, text := range texts {
		key := alarmKey{kind, subject}
		if a := b.active[key]; a != nil {
			a.text = text
			continue
		}
		b.active[key] = &alarm{text: text, since: time.Now(), wall: b.wall()}
		b.log.Error("alarm", "alarm", string(kind), "about", subject, "what", text)
	}
}

// list returns the alarms, oldest first. It is never nil.
func (b *alarmBook) list() []model.AlarmView {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := make([]alarmKey, 0, len(b.active))
	for key := range b.active {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y alarmKey) int {
		return cmp.Or(b.active[x].since.Compare(b.active[y].since), cmp.Compare(x.kind, y.kind), cmp.Compare(x.subject, y.subject))
	})
	out := make([]model.AlarmView, 0, len(keys))
	for _, key := range keys {
		a := b.active[key]
		out = append(out, model.AlarmView{Kind: key.kind, Subject: key.subject, Since: model.RFC3339(a.wall.UnixMilli()), Text: a.text})
	}
	return out
}

// watchAlarms compares what can go wrong with what is, until ctx ends.
func (m *Master) watchAlarms(ctx context.Context) error {
	tick := time.NewTicker(alarmTick)
	defer tick.Stop()
	voters := newProgress()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		m.alarms.set(model.AlarmStoreStalled, m.stalledStore())
		m.alarms.set(model.AlarmNameUnresolved, unresolvedNames(m.goss.Unresolved()))
		if m.leading.Load() == nil {
			voters = newProgress()
			m.alarms.set(model.AlarmMasterStuck, nil)
			m.alarms.set(model.AlarmStatesDiffer, nil)
			continue
		}
		stuck, err := m.stuckVoters(voters)
		if err != nil {
			m.log.Warn("could not look for masters that do not advance", "err", err)
			continue
		}
		m.alarms.set(model.AlarmMasterStuck, stuck)
	}
}

// stalledStore is this master's own alarm about its disk.
func (m *Master) stalledStore() map[string]string {
	stall, ok := m.node.Stall()
	if !ok {
		return nil
	}
	return map[string]string{string(m.id.ID()): stallText(stall)}
}

// unresolvedNames is this master's own alarm about members whose advertised
// names mean nothing where it runs: it can neither call nor find them.
func unresolvedNames(members []gossip.Unresolved) map[string]string {
	out := make(map[string]string)
	for _, u := range members {
		out[u.ID] = fmt.Sprintf("this master cannot resolve %q, which that %s advertises: make it resolve here, or set network.advertise there to a host that does (%s)", u.Host, u.Role, u.Err)
	}
	return out
}

func stallText(stall raftnode.Stall) string {
	return fmt.Sprintf("its disk does not answer: a call to %s has not returned for %s", stall.What, time.Since(stall.Since).Round(time.Second))
}

// stuckVoters finds voters whose log does not advance although they live and
// the leader's is longer: their disk, their Raft port, or the way there is
// broken, while heartbeats and gossip say that all is well.
func (m *Master) stuckVoters(p *progress) (map[string]string, error) {
	servers, _, err := m.node.Servers()
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool)
	for _, mb := range m.masterMembers() {
		alive[mb.ID] = mb.Status == gossip.StatusAlive
	}
	at := make(map[model.MasterID]uint64)
	for _, h := range m.node.Health() {
		at[h.ID] = h.LastIndex
	}
	seen := make(map[model.MasterID]uint64)
	for _, s := range servers {
		if s.Voter && s.ID != m.id.ID() && alive[string(s.ID)] {
			seen[s.ID] = at[s.ID]
		}
	}
	own := m.node.LastIndex()
	out := make(map[string]string)
	for id, index := range p.note(time.Now(), own, seen) {
		out[string(id)] = fmt.Sprintf("its log does not advance from index %d, the leader's is at %d; see this master's own log and disk", index, own)
	}
	return out, nil
}

// progress is how far the voters' logs were, and since when.
type progress struct{ voters map[model.MasterID]standing }

type standing struct {
	index uint64
	at    time.Time // when it last moved or was level with the leader's
}

func newProgress() *progress { return &progress{make(map[model.MasterID]standing)} }

// note takes the last index of the leader and of each voter and returns those
// voters, with their index, that have been behind for stuckLimit and not moved.
func (p *progress) note(now time.Time, leader uint64, voters map[model.MasterID]uint64) map[model.MasterID]uint64 {
	for id := range p.voters {
		if _, there := voters[id]; !there {
			delete(p.voters, id)
		}
	}
	stuck := make(map[model.MasterID]uint64)
	for id, index := range voters {
		before, known := p.voters[id]
		if !known || index != before.index || index >= leader {
			p.voters[id] = standing{index, now}
			continue
		}
		if now.Sub(before.at) >= stuckLimit {
			stuck[id] = index
		}
	}
	return stuck
}
