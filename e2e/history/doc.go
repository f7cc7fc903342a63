// Package history records what concurrent clients asked of a cluster and what
// they were told, and judges whether a correct cluster could have answered so.
//
// It owns the sequential model of one application as a client sees it
// (register, set target, kill, read) and hands the search to porcupine. It knows
// no client and no process: package e2e makes the calls.
//
// An operation that was refused for sure changed nothing. One of unknown outcome
// may take effect at any time after its call, or never; it is given no end.
//
// Imported by the tests of e2e.
package history
