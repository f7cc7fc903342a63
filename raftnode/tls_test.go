package raftnode

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// openSecured listens on loopback as a master with the given ends of TLS.
func openSecured(t *testing.T, id string, secure StreamTLS) (*helloStream, *logBuffer) {
	t.Helper()
	log, out := newLog(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newHelloStream(NewTCPStream(listener, "", secure), model.MasterID(id), ourCluster(), log)
	t.Cleanup(func() { _ = s.Close() })
	return s, out
}

func ends(src *tlsconf.Source) StreamTLS {
	return StreamTLS{Server: src.Server(), Client: src.Client()}
}

func TestMastersTalkOverMutualTLSAndToNobodyElse(t *testing.T) {
	authority := testca.New(t)
	a, _ := openSecured(t, "m1", ends(authority.Source(t, tlsconf.RoleMaster, "m1")))
	b, _ := openSecured(t, "m2", ends(authority.Source(t, tlsconf.RoleMaster, "m2")))
	plain, _ := openSecured(t, "m3", StreamTLS{})
	conn, err := a.Dial(routeTo("m2", b.Addr().String()), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	if _, err := io.ReadFull(accepted, got); err != nil || got[0] != 'x' {
		t.Errorf("first byte: got %q, %v", got, err)
	}
	if _, err := plain.Dial(routeTo("m2", b.Addr().String()), 5*time.Second); err == nil {
		t.Error("a master without TLS got through")
	}
}

// TestSE03AWorkerCertificateIsRefusedByRaft and, with SE-04, that of everybody
// else but a master of this cluster: as a dialler and as a listener. Both ends
// say why, the master's log once however often they try.
func TestSE03AWorkerCertificateIsRefusedByRaft(t *testing.T) {
	ours, stranger, sister := testca.New(t), testca.New(t), testca.Of(t, "test")
	master := ours.Source(t, tlsconf.RoleMaster, "m1")
	for _, test := range []struct {
		name string
		bad  *tlsconf.Source
		why  string
	}{
		{"a worker", ours.Source(t, tlsconf.RoleWorker, "w1"), "is a worker, only master may be here"},
		{"a client", ours.Source(t, tlsconf.RoleClient, "alice"), "is a client, only master may be here"},
		{"a master of another authority", stranger.Source(t, tlsconf.RoleMaster, "m1"), "unknown authority"},
		{"a master of another cluster", sister.Source(t, tlsconf.RoleMaster, "m1"), "unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			good, said := openSecured(t, "m1", ends(master))
			bad := StreamTLS{Server: test.bad.Server(), Client: test.bad.Client()}
			bad.Server.VerifyConnection, bad.Client.VerifyConnection = nil, nil // it would take anybody
			other, _ := openSecured(t, "m2", bad)
			for range 3 {
				_, err := other.Dial(routeTo("m1", good.Addr().String()), 5*time.Second)
				if err == nil || !strings.Contains(err.Error(), "refuses this end's certificate ("+test.bad.Identity().String()) {
					t.Fatalf("as a dialler: got error %v, want one that names the certificate", err)
				}
			}
			_, err := good.Dial(routeTo("m2", other.Addr().String()), 5*time.Second)
			if err == nil || !strings.Contains(err.Error(), "raft peer") {
				t.Errorf("as a listener: got error %v, want a refusal", err)
			}
			// The last refusal may still be on its way to the log.
			poll, limit := time.NewTicker(time.Millisecond), time.After(5*time.Second)
			defer poll.Stop()
			for !strings.Contains(said.String(), "raft connection refused") {
				select {
				case <-poll.C:
					continue
				case <-limit:
					t.Fatal("after 5 s the master's log says nothing of the refusal")
				}
			}
			text := said.String()
			if strings.Count(text, "raft connection refused") != 1 || !strings.Contains(text, test.why) {
				t.Errorf("the master's log has %q, want one refusal with %q", text, test.why)
			}
		})
	}
}
