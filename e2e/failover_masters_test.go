//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// ears listens to what each master says of itself, at little cost.
type ears struct {
	conns map[string]*rpc.Conn // by address
}

func newEars(t testing.TB) *ears {
	e := &ears{conns: map[string]*rpc.Conn{}}
	t.Cleanup(func() {
		for _, conn := range e.conns {
			_ = conn.Close() // nothing is in flight
		}
	})
	return e
}

// to returns the connection to one master.
func (e *ears) to(t testing.TB, m *node) *rpc.Conn {
	t.Helper()
	if conn := e.conns[m.GRPC]; conn != nil {
		return conn
	}
	conn, err := m.of.access.dial(m.GRPC, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	e.conns[m.GRPC] = conn
	return conn
}

func (e *ears) ask(t testing.TB, m *node) (model.Staleness, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return rpc.ClusterClient(e.to(t, m)).Staleness(ctx)
}

// whole waits until all masters of the cluster follow one leader of one term
// and have applied what it had applied when it was found, so that any of them
// may be lost.
func (e *ears) whole(t testing.TB, c *cluster) (leader *node, found model.Staleness) {
	t.Helper()
	eventually(t, settleWithin, "all masters follow one leader", func() string {
		said := make([]model.Staleness, len(c.masters))
		for n, m := range c.masters {
			var err error
			if said[n], err = e.ask(t, m); err != nil {
				return fmt.Sprintf("%s: %v", m.name, err)
			}
			if string(said[n].Leader) == m.ID && said[n].Term > found.Term {
				leader, found = m, said[n]
			}
		}
		if leader == nil {
			return "no master leads"
		}
		for n, s := range said {
			if s.Leader != found.Leader || s.Term != found.Term || s.AppliedIndex < found.AppliedIndex {
				return fmt.Sprintf("%s follows %q of term %d at index %d; %s led term %d at %d",
					c.masters[n].name, s.Leader, s.Term, s.AppliedIndex, leader.name, found.Term, found.AppliedIndex)
			}
		}
		return ""
	})
	return leader, found
}

// others are the masters but one.
func (c *cluster) others(but *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.masters), func(m *node) bool { return m == but })
}

func grpcAddrs(nodes []*node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.GRPC)
	}
	return out
}
