//go:build linux

package workerd

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
)

// membership ties gossip to the session: masters that gossip knows are asked for the leader, and
// one that has failed is given up sooner. It tells the others which worker this is.
type membership struct {
	log    hclog.Logger
	gossip *gossip.Gossip
	finder *client.LeaderFinder
	// suspect is told the gRPC addresses of masters that have failed.
	suspect func(addr string)
	// stays says that this worker is only away for a moment.
	stays func() bool

	tagsMu sync.Mutex
	tags   gossip.Tags
	news   chan struct{} // capacity 1: tags have changed
}

func newMembership(log hclog.Logger, g *gossip.Gossip, finder *client.LeaderFinder, suspect func(string), stays func() bool, tags gossip.Tags) *membership {
	return &membership{log: log, gossip: g, finder: finder, suspect: suspect, stays: stays, tags: tags, news: make(chan struct{}, 1)}
}

// changed gives the tags a new cluster and incarnation. Never blocks.
func (m *membership) changed(cluster model.ClusterIdentity, incarnation uint64) {
	m.tagsMu.Lock()
	same := m.tags.Cluster == cluster && m.tags.Incarnation == incarnation
	m.tags.Cluster, m.tags.Incarnation = cluster, incarnation
	m.tagsMu.Unlock()
	if same {
		return
	}
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// uses gives the tags what is in use on the machine. Never blocks.
func (m *membership) uses(memoryMiB int64) {
	m.tagsMu.Lock()
	m.tags.MemoryUsedMiB = uint64(max(0, memoryMiB))
	m.tagsMu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// run gossips until ctx ends, and then says goodbye unless the worker stays.
func (m *membership) run(ctx context.Context) error {
	var parts sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	parts.Go(func() { m.watch(inner) })
	parts.Go(func() { m.tell(inner) })
	err := m.gossip.Run(ctx)
	cancel()
	if err == nil && !m.stays() {
		leave, stop := context.WithTimeout(context.WithoutCancel(ctx), gossipTimeout)
		if err := m.gossip.Leave(leave); err != nil {
			m.log.Warn("gossip not left; the others will see a failure", "err", err)
		}
		stop()
	}
	err = errors.Join(err, m.gossip.Close())
	parts.Wait()
	return err
}

// watch reads the news about masters. Who is there already comes as news too.
func (m *membership) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-m.gossip.Events():
			if !ok {
				return
			}
			if ev.Member.Role != gossip.RoleMaster || ev.Member.Tags.GRPCAddr == "" {
				continue
			}
			switch ev.Kind {
			case gossip.MemberJoin, gossip.MemberUpdated:
				m.finder.AddSeeds([]string{ev.Member.Tags.GRPCAddr})
			case gossip.MemberFailed, gossip.MemberLeft:
				m.suspect(ev.Member.Tags.GRPCAddr)
			case gossip.MemberReaped:
			}
		}
	}
}

// tell passes on changed tags, which may take a while.
func (m *membership) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.news:
			m.tagsMu.Lock()
			tags := m.tags
			m.tagsMu.Unlock()
			if err := m.gossip.SetTags(tags); err != nil && !errors.Is(err, gossip.ErrStopped) {
				m.log.Warn("gossip not told of a change", "err", err)
			}
		}
	}
}
