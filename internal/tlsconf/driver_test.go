package tlsconf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// driverFiles writes the files of an attempt of a driver as a worker does.
func driverFiles(t *testing.T, trusted []byte, cluster, name, secret string) Files {
	t.Helper()
	cert, key, err := DriverPair(cluster, name, secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := Files{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for path, data := range map[string][]byte{f.CAFile: trusted, f.CertFile: cert, f.KeyFile: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

const attemptName = "driver-20261130061500-0003.2"

func TestADriverIsLetInByTheKeyThatFollowsFromItsSecretAndNobodyElseIs(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	past, hour := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	issue := func(a *authority, id Identity) *Source { return load(t, a.issue(t, t.TempDir(), "m1", id, past, hour)) }
	master := issue(ours, Identity{"prod", RoleMaster, "m1"})
	worker := issue(ours, Identity{"prod", RoleWorker, "w1"})
	attempt := func(cluster, name, secret string) *Source {
		return load(t, driverFiles(t, worker.Authorities(), cluster, name, secret))
	}
	server := Drivers(master.Server(), func(name string) (string, bool) {
		return "secret of 2", name == attemptName
	})
	for _, test := range []struct {
		name   string
		client *Source
		want   error
	}{
		{"the attempt", attempt("prod", attemptName, "secret of 2"), nil},
		{"the attempt with another secret", attempt("prod", attemptName, "secret of 1"), ErrUnknownDriver},
		{"an attempt that is not known", attempt("prod", "driver-20261130061500-0003.1", "secret of 2"), ErrUnknownDriver},
		{"the attempt of another cluster", attempt("test", attemptName, "secret of 2"), ErrWrongCluster},
		{"an authority that calls somebody a driver", issue(ours, Identity{"prod", RoleDriver, attemptName}), ErrUnknownDriver},
		{"a client", issue(ours, Identity{"prod", RoleClient, "ann"}), nil},
		{"a client of another authority", issue(theirs, Identity{"prod", RoleClient, "ann"}), ErrUnknownAuthority},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _ := shake(t, server, test.client.trusting(), "m1"); !errors.Is(got, test.want) {
				t.Errorf("the master says %v, want %v", got, test.want)
			}
		})
	}
	good := attempt("prod", attemptName, "secret of 2")
	t.Run("a driver knows the masters of its cluster", func(t *testing.T) {
		if _, err := shake(t, server, Only(good.Client(), RoleMaster), "m1"); err != nil {
			t.Error(err)
		}
		other := issue(theirs, Identity{"prod", RoleMaster, "m1"})
		if _, err := shake(t, other.trustingServer(), Only(good.Client(), RoleMaster), "m1"); !errors.Is(err, ErrUnknownAuthority) {
			t.Errorf("it trusts a master of another authority: %v", err)
		}
	})
	t.Run("a listener that is not for drivers refuses it", func(t *testing.T) {
		if got, _ := shake(t, worker.Server(), good.trusting(), "m1"); !errors.Is(got, ErrUnknownAuthority) {
			t.Errorf("a worker says %v", got)
		}
		named := issue(ours, Identity{"prod", RoleDriver, attemptName})
		if got, _ := shake(t, worker.Server(), named.trusting(), "m1"); !errors.Is(got, ErrWrongRole) {
			t.Errorf("a worker says %v to one that the authority has signed", got)
		}
	})
	t.Run("a daemon does not start with it", func(t *testing.T) {
		if err := good.Require(RoleMaster); err == nil {
			t.Error("a master takes it")
		}
	})
}

func TestNoAuthorityIssuesTheRoleOfDrivers(t *testing.T) {
	if err := (Identity{"prod", RoleDriver, "x"}).Validate(); err == nil {
		t.Error("the role driver is taken")
	}
}

func TestADriverPairNeedsASecretAndAName(t *testing.T) {
	for _, bad := range [][3]string{{"prod", attemptName, ""}, {"prod", "", "s"}, {"", attemptName, "s"}, {"prod", "a/b", "s"}} {
		if _, _, err := DriverPair(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
