//go:build e2e

package e2e

import "testing"

// skipLong skips a test that waits for what takes long, repeats what another
// test does once, or needs the machine for itself. "make e2e" runs it and "make
// e2e-short", which every change must pass, does not.
func skipLong(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: make e2e runs it")
	}
}
