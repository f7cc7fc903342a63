// Package e2e tests Hearth as its users meet it: the real binary, real
// processes on loopback, killed and paused. It owns the harness that starts
// clusters through "hearth demo --keep --no-job", and nothing that ships.
//
// Everything but this file is behind the build tag e2e; "make e2e" runs it.
// After every test the replicas of all living masters must have the same state
// hash, and no process that the cluster started may be left.
//
// Importers: none.
package e2e
