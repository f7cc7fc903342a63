package gossip

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"
)

// Limits of the warning about lost datagrams.
const (
	// DatagramWarningInterval is how often it is written at most.
	DatagramWarningInterval = time.Minute
	// datagramGather is the time between the first sign and the first warning, so that it names all peers of a small pool.
	datagramGather = 5 * time.Second
	// maxNamedPeers bounds the peers that one warning names.
	maxNamedPeers = 8
	// maxDatagramSigns bounds the signs that wait to be counted; more say nothing new.
	maxDatagramSigns = 64
)

// fallbackBefore and fallbackAfter enclose the name of a peer in what memberlist logs when a probe by datagrams was not
// answered and one by a stream was (state.go, probeNode). That is the mark of a blocked UDP port: the peer is alive, and
// each probe of it costs a connection.
const (
	fallbackBefore = "memberlist: Was able to connect to "
	fallbackAfter  = " over TCP but UDP probes failed"
)

// lostDatagrams returns the peer that a log line of memberlist calls reachable by streams only.
func lostDatagrams(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, fallbackBefore)
	if !ok {
		return "", false
	}
	id, _, ok = strings.Cut(rest, fallbackAfter)
	return id, ok
}

// noteLostDatagrams counts a sign that datagrams to or from a peer are lost. It never blocks: memberlist is in the middle
// of a probe.
func (g *Gossip) noteLostDatagrams(id string) {
	select {
	case g.deaf <- id:
	default:
	}
}

// watchDatagrams writes one warning per interval that names the peers without datagrams and their ports, until done is
// closed. It is a goroutine of its own because it looks members up, which takes serf's locks; it must not take those of
// Gossip, because Close waits for it under them.
func (g *Gossip) watchDatagrams(s *serf.Serf, own string, done <-chan struct{}) {
	var due <-chan time.Time // nil: nothing to tell
	var told time.Time
	peers := map[string]struct{}{}
	for {
		select {
		case <-done:
			return
		case id := <-g.deaf:
			peers[id] = struct{}{}
			if due == nil {
				due = time.After(max(datagramGather, DatagramWarningInterval-time.Since(told)))
			}
		case <-due:
			g.warnOfDatagrams(s, own, peers)
			clear(peers)
			due, told = nil, time.Now()
		}
	}
}

func (g *Gossip) warnOfDatagrams(s *serf.Serf, own string, peers map[string]struct{}) {
	var named []string
	for _, raw := range s.Members() {
		_, deaf := peers[raw.Name]
		if m, ok := g.known(raw); ok && deaf {
			named = append(named, m.ID+" at "+m.SerfAddr)
		}
	}
	if len(named) == 0 {
		return // gone meanwhile
	}
	slices.Sort(named)
	if more := len(named) - maxNamedPeers; more > 0 {
		named = append(named[:maxNamedPeers], fmt.Sprintf("%d more", more))
	}
	g.cfg.Logger.Warn("peers answer by TCP and not by UDP: open the gossip port for UDP in both directions",
		"node", g.cfg.NodeID, "own", own, "peers", strings.Join(named, ", "))
}
