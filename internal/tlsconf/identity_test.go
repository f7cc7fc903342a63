package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
)

func certWith(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

func TestACertificateSaysWhoItsHolderIs(t *testing.T) {
	want := Identity{Cluster: "prod-1", Role: RoleWorker, Name: "w1.example.org"}
	got, err := RoleOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{certWith(t, "spiffe://elsewhere/x", want.URI().String())}})
	if err != nil || got != want {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
	if got.String() != got.URI().String() {
		t.Errorf("got %s and %s, want the same", got.String(), got.URI())
	}
}

func TestAnythingButOneIdentityIsRefused(t *testing.T) {
	good := "hearth://prod/master/m1"
	for _, test := range []struct {
		name string
		uris []string
	}{
		{"no URI", nil},
		{"two identities", []string{good, "hearth://prod/client/m1"}},
		{"the same twice", []string{good, good}},
		{"an unknown role", []string{"hearth://prod/root/m1"}},
		{"a role in capitals", []string{"hearth://prod/Master/m1"}},
		{"no cluster", []string{"hearth:///master/m1"}},
		{"no name", []string{"hearth://prod/master"}},
		{"an empty name", []string{"hearth://prod/master/"}},
		{"a path too long", []string{"hearth://prod/master/m1/x"}},
		{"a query", []string{good + "?role=master"}},
		{"an empty role", []string{"hearth://prod//m1"}},
		{"a user", []string{"hearth://u@prod/master/m1"}},
		{"a port", []string{"hearth://prod:1/master/m1"}},
		{"a name beyond the limit", []string{"hearth://prod/master/" + strings.Repeat("m", MaxIdentityPart+1)}},
		{"an opaque one", []string{"hearth:prod/master/m1"}},
		{"an escaped slash", []string{"hearth://prod/master%2Fm1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if id, err := IdentityOf(certWith(t, test.uris...)); !errors.Is(err, ErrNoIdentity) {
				t.Errorf("got %v and error %v, want ErrNoIdentity", id, err)
			}
		})
	}
	if _, err := RoleOf(tls.ConnectionState{}); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("got error %v, want ErrNoIdentity", err)
	}
}
