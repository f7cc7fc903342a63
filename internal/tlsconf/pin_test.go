package tlsconf

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"
)

func TestOnlyThePinnedServerIsSpokenTo(t *testing.T) {
	server, pin, err := Ephemeral("driver")
	if err != nil {
		t.Fatal(err)
	}
	impostor, otherPin, err := Ephemeral("driver")
	if err != nil {
		t.Fatal(err)
	}
	if pin == otherPin || len(pin) != 64 {
		t.Fatalf("got pins %s and %s, want two different digests", pin, otherPin)
	}
	if sErr, cErr := shake(t, server, ForHost(Pinned(pin), "10.0.0.1"), "10.0.0.1"); sErr != nil || cErr != nil {
		t.Errorf("the right one: got server error %v and client error %v, want none", sErr, cErr)
	}
	for name, bad := range map[string]*tls.Config{"another certificate": impostor, "one of an authority": load(t, newAuthority(t, "a").write(t, t.TempDir(), "m1", time.Now().Add(time.Hour))).trustingServer()} {
		bad.ClientAuth = tls.NoClientCert
		if _, cErr := shake(t, bad, Pinned(pin), "10.0.0.1"); !errors.Is(cErr, ErrWrongPin) {
			t.Errorf("%s: got error %v, want ErrWrongPin", name, cErr)
		}
	}
	if Pinned("") != nil {
		t.Error("without a pin there must be no config")
	}
}
