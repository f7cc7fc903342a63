package rpc

import (
	"testing"
)

func TestEveryMethodHasARowInTheTable(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerConfig{}, allServices(&fakeServices{}))
	defer s.grpc.Stop()
	table := methodTable()
	seen := map[string]bool{}
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			seen[name] = true
			row, ok := table[name]
			if !ok || row.by == 0 {
				t.Errorf("%s is served but has no row: may a standby serve it?", name)
				continue
			}
			if (row.by == byLeader || row.leaderIf != nil) && row.reply == nil {
				t.Errorf("%s is forwarded but its row makes no reply", name)
			}
			if (row.by == byLeaderStream) != (m.IsClientStream && row.by != byAny) {
				t.Errorf("%s: only a stream can be a leader's stream", name)
			}
			if row.identified && (row.by != byLeader || !row.changes) {
				t.Errorf("%s: an identified call changes something at the leader", name)
			}
		}
	}
	for name := range table {
		if !seen[name] {
			t.Errorf("%s has a row but is not served", name)
		}
	}
}

func TestTheServerToleratesTwiceTheClientsPings(t *testing.T) {
	t.Parallel()
	if KeepaliveMinimum > KeepaliveInterval/2 {
		t.Fatalf("the server's minimum %s is more than half of the client's interval %s", KeepaliveMinimum, KeepaliveInterval)
	}
	if sum := KeepaliveInterval + KeepaliveTimeout; sum.Seconds() > 20 {
		t.Fatalf("a silent peer is noticed after %s only", sum)
	}
	if MaxMessageBytes <= 4<<20 {
		t.Fatalf("a task of the largest size does not fit into %d bytes", MaxMessageBytes)
	}
}
