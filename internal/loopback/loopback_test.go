package loopback

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyWhatCannotLeaveThisMachineIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.10": true, "::1": true, "[::1]": true, "localhost": true, "LocalHost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.org": false, "127.0.0.1.example.org": false, "m1": false,
		"::ffff:10.0.0.1": false, "127.1": false, "[": false,
	} {
		if got := Host(host); got != want {
			t.Errorf("host %q: got %t, want %t", host, got, want)
		}
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:7070": true, "[::1]:7070": true, "localhost:1": true, "10.0.0.1:7070": false, "127.0.0.1": false, "": false, ":7070": false,
	} {
		if got := Addr(addr); got != want {
			t.Errorf("address %q: got %t, want %t", addr, got, want)
		}
	}
}
