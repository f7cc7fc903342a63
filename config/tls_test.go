package config

import "testing"

func TestADirectoryStandsForTheFilesOfTLSAndTheGossipKey(t *testing.T) {
	c := DefaultMaster()
	if ca, cert, key := c.TLS.Paths(); ca+cert+key+c.GossipKeyFile() != "" {
		t.Errorf("without TLS: got %q, %q, %q and %q, want none", ca, cert, key, c.GossipKeyFile())
	}
	c.TLS = TLS{Dir: "/tls", CertFile: "/elsewhere/m1.pem"}
	ca, cert, key := c.TLS.Paths()
	for _, test := range []struct{ got, want string }{
		{ca, "/tls/ca.pem"}, {cert, "/elsewhere/m1.pem"}, {key, "/tls/key.pem"}, {c.GossipKeyFile(), "/tls/gossip.key"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
	c.Gossip.KeyFile = "/other.key"
	if got := c.GossipKeyFile(); got != "/other.key" {
		t.Errorf("got %q, want the file that was named", got)
	}
}

func TestAClientFindsItsCertificateByTheEnvironment(t *testing.T) {
	c, _, err := LoadClient("", []string{"HEARTH_TLS_DIR=/home/alice/tls"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, cert, _ := c.TLS.Paths(); cert != "/home/alice/tls/cert.pem" {
		t.Errorf("got certificate %q, want that of HEARTH_TLS_DIR", cert)
	}
}
