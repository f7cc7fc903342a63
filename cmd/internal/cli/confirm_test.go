package cli

import "testing"

// SE-12: what ends everybody's work asks first.
func TestSE12EndingAllDriversIsConfirmed(t *testing.T) {
	code, _, stderr := runLine(t, "driver", "kill-all", "--masters", "127.0.0.1:1", "--timeout", "1ms")
	if code != exitUsage || stderr != "hearth: driver kill-all: there is no terminal to ask at; say --yes\n" {
		t.Errorf("without --yes: exit code %d, %q", code, stderr)
	}
	code, _, stderr = runLine(t, "driver", "kill-all", "--yes", "--masters", "127.0.0.1:1", "--timeout", "1ms")
	if code != exitNoLeader {
		t.Errorf("with --yes and no cluster: exit code %d, %q", code, stderr)
	}
}
