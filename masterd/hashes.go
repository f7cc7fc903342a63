package masterd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// State hashes are compared at checkpoints that every replica finds by itself:
// the first entry past each multiple of checkpointEvery indexes, or past each
// minute of the cluster clock (design 5).
const (
	checkpointEvery = 1000
	checkpointMilli = 60_000
	// checkpointsKept bounds what is remembered at either end.
	checkpointsKept = 8
)

// reportDelays are the waits before a checkpoint is told to the leader, again
// and again, because the leader may not have got so far itself.
func reportDelays() []time.Duration {
	return []time.Duration{500 * time.Millisecond, 2 * time.Second, 5 * time.Second}
}

type checkpoint struct {
	index uint64
	hash  [16]byte
}

// hashLog finds checkpoints on the apply thread, and on the leader holds what
// the masters reported.
type hashLog struct {
	fresh chan checkpoint // to the reporter; dropped when it lags

	mu       sync.Mutex
	index    uint64 // last entry seen
	tick     int64
	reported map[uint64]map[model.MasterID][16]byte
}

func newHashLog() *hashLog {
	return &hashLog{
		fresh:    make(chan checkpoint, checkpointsKept),
		reported: make(map[uint64]map[model.MasterID][16]byte),
	}
}

// note looks at the view after an entry. It never blocks.
func (h *hashLog) note(v *fsm.View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	index, tick := v.Index(), v.Tick()
	crossed := h.index != 0 && (index/checkpointEvery != h.index/checkpointEvery || tick/checkpointMilli != h.tick/checkpointMilli)
	h.index, h.tick = index, tick
	if !crossed {
		return
	}
	c := checkpoint{index: index, hash: v.Hash()}
	select {
	case h.fresh <- c:
	default:
	}
}

// hashVerdict is what the leader thinks of a report.
type hashVerdict int

const (
	hashOpen    hashVerdict = iota // too few voters have reported
	hashAgrees                     // with a majority of the voters
	hashDiffers                    // from what a majority of the voters agree on
	hashesSplit                    // all voters have reported, and no majority agrees
)

// record takes a report on the leader and judges it against the voters.
func (h *hashLog) record(r rpc.HashReport, voters map[model.MasterID]bool) hashVerdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.reported[r.Index]
	if at == nil {
		at = make(map[model.MasterID][16]byte)
		h.reported[r.Index] = at
		h.trimLocked()
	}
	at[r.From] = r.Hash
	count := make(map[[16]byte]int)
	heard := 0
	for id, hash := range at {
		if voters[id] {
			count[hash]++
			heard++
		}
	}
	majority := len(voters)/2 + 1
	for hash, n := range count {
		if n >= majority {
			if hash != r.Hash {
				return hashDiffers
			}
			return hashAgrees
		}
	}
	if heard == len(voters) && len(count) > 1 {
		return hashesSplit
	}
	return hashOpen
}

func (h *hashLog) trimLocked() {
	for len(h.reported) > checkpointsKept {
		oldest := uint64(0)
		for index := range h.reported {
			if oldest == 0 || index < oldest {
				oldest = index
			}
		}
		delete(h.reported, oldest)
	}
}

// reportHashes tells the leader each checkpoint, and stops this master if the
// majority disagrees with it.
func (m *Master) reportHashes(ctx context.Context) error {
	for {
		var c checkpoint
		select {
		case <-ctx.Done():
			return nil
		case c = <-m.hash.fresh:
		}
		for _, wait := range reportDelays() {
			if sleep(ctx, wait) != nil {
				return nil //nolint:nilerr // ctx has ended, which is how this ends
			}
			verdict, err := m.reportHash(ctx, c)
			if err != nil {
				m.log.Debug("could not report the state hash", "index", c.index, "err", err)
				continue
			}
			if verdict.Differs {
				return m.stopOnDifference(ctx, c, verdict)
			}
		}
	}
}

func (m *Master) reportHash(ctx context.Context, c checkpoint) (rpc.HashVerdict, error) {
	r := rpc.HashReport{From: m.id.ID(), Index: c.index, Hash: c.hash}
	if m.leading.Load() != nil {
		return m.judgeHash(r)
	}
	id, _ := m.node.Leader()
	conn, err := m.conns.get(m.grpcAddrOf(id))
	if err != nil {
		return rpc.HashVerdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	return rpc.PeerClient(conn).ReportHash(ctx, r)
}

// judgeHash is the leader's answer to a report.
func (m *Master) judgeHash(r rpc.HashReport) (rpc.HashVerdict, error) {
	if m.leading.Load() == nil {
		return rpc.HashVerdict{}, m.notLeader()
	}
	servers, _, err := m.node.Servers()
	if err != nil {
		return rpc.HashVerdict{}, err
	}
	voters := make(map[model.MasterID]bool)
	for _, s := range servers {
		if s.Voter {
			voters[s.ID] = true
		}
	}
	switch m.hash.record(r, voters) {
	case hashOpen:
	case hashAgrees:
		m.alarms.set(model.AlarmStatesDiffer, nil)
	case hashesSplit:
		m.alarms.set(model.AlarmStatesDiffer, map[string]string{
			m.fsm.View().Cluster().ID: fmt.Sprintf("the states of the masters differ at index %d and no majority agrees: compare the masters by hand", r.Index),
		})
	case hashDiffers:
		return rpc.HashVerdict{Differs: true, Reason: fmt.Sprintf("a majority of %d voters has another state at index %d", len(voters), r.Index)}, nil
	}
	return rpc.HashVerdict{}, nil
}

// stopOnDifference ends a master whose state is not the majority's; a leader
// hands leadership over first.
func (m *Master) stopOnDifference(ctx context.Context, c checkpoint, v rpc.HashVerdict) error {
	if m.leading.Load() != nil {
		if err := m.transfer(ctx, ""); err != nil {
			m.log.Warn("could not hand leadership over before stopping", "err", err)
		}
	}
	return fmt.Errorf("state hash %x at index %d is wrong: %s; set the data directory aside and let this master join anew", c.hash, c.index, v.Reason)
}
