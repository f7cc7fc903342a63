package rpc

import (
	"strings"
	"testing"

	"github.com/hearthd/hearth/internal/testca"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// TestAClientWhoseCertificateIsRefusedSaysWhichOneItShowed: the alert of TLS has
// no reason in it.
func TestAClientWhoseCertificateIsRefusedSaysWhichOneItShowed(t *testing.T) {
	ours := testca.New(t)
	s, _ := serve(t, ServerConfig{TLS: tlsconf.Only(ours.Source(t, tlsconf.RoleMaster, "m1").Server(), tlsconf.RoleMaster)}, allServices(&fakeServices{}))
	client := ours.Source(t, tlsconf.RoleClient, "ann").Client()
	_, err := ClusterClient(dial(t, s.Addr().String(), DialConfig{TLS: client})).Staleness(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "refuses this end's certificate (hearth://prod/client/ann") {
		t.Errorf("got error %v, want one that names the certificate", err)
	}
	_, err = ClusterClient(dial(t, s.Addr().String(), DialConfig{TLS: testca.New(t).Source(t, tlsconf.RoleMaster, "m1").Client()})).Staleness(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("got error %v, want one about the authority", err)
	}
}
