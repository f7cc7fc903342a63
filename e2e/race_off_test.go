//go:build e2e && !race

package e2e

var buildFlags []string
