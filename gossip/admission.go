package gossip

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"github.com/hearthd/hearth/model"
)

// refusalInterval is how often the refusal of the same member is logged.
const refusalInterval = time.Minute

// maxLoggedRefusals bounds the refusals logged per interval.
const maxLoggedRefusals = 16

// maxTurnedAway bounds the ids remembered as refused.
const maxTurnedAway = 1024

// refusalMark begins the errors given to memberlist, which logs each one each time; the log writer knows them by it.
const refusalMark = "member refused: "

// admission decides who may be a member. memberlist calls it under its node lock, so it calls nothing back.
type admission struct {
	logger hclog.Logger

	mu     sync.Mutex
	local  Tags
	window time.Time
	logged map[string]bool
	// away holds ids whose latest word was refused. memberlist keeps a member it met earlier with its old tags then, which
	// were acceptable: a node without a cluster that has found another one than ours.
	away map[string]struct{}
}

var _ serf.MergeDelegate = (*admission)(nil)

func newAdmission(local Tags, logger hclog.Logger) *admission {
	return &admission{local: local, logger: logger, logged: make(map[string]bool), away: make(map[string]struct{})}
}

// setLocal changes the identity against which others are measured.
func (a *admission) setLocal(t Tags) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.local = t
}

// NotifyMerge is asked before the list of a peer is taken in by a join (many members), and before each single member is
// taken for alive (one). A list is refused as a whole only if it names members of foreign clusters and none of this one:
// a single foreigner in a list, perhaps dead for hours, must not keep the others out, and is refused by itself.
func (a *admission) NotifyMerge(members []*serf.Member) error {
	foreign := error(nil)
	for _, m := range members {
		if m.Status == serf.StatusLeft && len(members) > 1 {
			continue
		}
		bound, err := a.judge(m)
		if len(members) == 1 {
			a.remember(m.Name, err != nil)
		}
		if err == nil && bound {
			return nil
		}
		if err != nil && foreign == nil {
			foreign = err
			a.log(m, err)
		}
	}
	if foreign != nil {
		return fmt.Errorf(refusalMark+"%w", foreign)
	}
	return nil
}

// remember notes whether the latest word of a member was refused.
func (a *admission) remember(id string, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !refused:
		delete(a.away, id)
	case len(a.away) < maxTurnedAway:
		a.away[id] = struct{}{}
	}
}

// turnedAway says whether the latest word of a member was refused.
func (a *admission) turnedAway(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, away := a.away[id]
	return away
}

// judge says whether a member is refused and, if not, whether it vouches for its list: it is bound to this node's cluster,
// or this node has none yet.
func (a *admission) judge(m *serf.Member) (bound bool, err error) {
	tags, err := decodeTags(m.Name, m.Tags)
	if err != nil {
		return false, fmt.Errorf("%.*q does not speak this protocol: %w", MaxIDBytes, m.Name, err)
	}
	return a.admits(tags)
}

// admits is the rule for tags that were understood.
func (a *admission) admits(tags Tags) (bound bool, err error) {
	a.mu.Lock()
	local := a.local
	a.mu.Unlock()
	if tags.ID == local.ID {
		return false, nil
	}
	if err := accepts(local.Cluster, tags); err != nil {
		return false, fmt.Errorf("%s %s: %w", tags.Role, tags.ID, err)
	}
	return local.Cluster.IsZero() || tags.Cluster.ID == local.Cluster.ID, nil
}

// accepts applies the rule of all handshakes with one exception: a worker of this cluster that has not heard of a newer
// epoch is welcome, because it holds no state and learns the epoch from its leader, whom it may have to find through
// gossip first.
func accepts(local model.ClusterIdentity, peer Tags) error {
	if peer.Role == RoleWorker && peer.Cluster.ID == local.ID && peer.Cluster.Epoch < local.Epoch {
		return nil
	}
	return local.Accepts(peer.Cluster)
}

// log writes one line per refused member and interval; peers repeat themselves many times a second.
func (a *admission) log(m *serf.Member, reason error) {
	a.mu.Lock()
	now := time.Now()
	if now.Sub(a.window) >= refusalInterval {
		a.window = now
		clear(a.logged)
	}
	if a.logged[m.Name] || len(a.logged) >= maxLoggedRefusals {
		a.mu.Unlock()
		return
	}
	a.logged[m.Name] = true
	local := a.local
	a.mu.Unlock()
	a.logger.Warn("gossip member refused", "node", local.ID, "cluster", local.Cluster.String(),
		"peer", m.Name, "addr", m.Addr, "err", reason)
}
