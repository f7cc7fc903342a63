package simnet

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestARefusedPairIsResetAndEverybodyElseIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(nil)
		listener, err := n.Host("server").Listen(":80")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		connect := func(host string) error {
			conn, err := n.Host(host).DialTimeout("server:80", time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		}
		near, err := n.Host("a").DialTimeout("server:80", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		far, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		n.Refuse("a", "server")
		for side, conn := range map[string]interface{ Read([]byte) (int, error) }{"dialer": near, "listener": far} {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read at the %s: got %v, want a reset", side, err)
			}
		}
		if err := connect("a"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial of the refused host: got %v, want a refusal", err)
		}
		if err := connect("b"); err != nil {
			t.Errorf("dial of another host: %v", err)
		}
		n.HealLink("a", "server")
		if err := connect("a"); err != nil {
			t.Errorf("dial after the heal: %v", err)
		}
	})
}
