//go:build e2e && race

package e2e

// buildFlags make the binary under test report data races when the tests do.
var buildFlags = []string{"-race"}
