// Package demo starts a whole cluster as processes of the own binary, runs a
// real job on it, kills the leader and a worker with SIGKILL in the middle, and
// checks the result.
//
// It owns the files listening.json and ready.json, by which the daemons' verbs
// say under which addresses they are reached; the processes it starts, each in
// a session of its own, until they are gone; and the count of lines, words and
// bytes that is its job, in two independent ways. It sees the cluster only as a
// user does: through flags, signals, client and driver.
//
// Only cmd/internal/cli imports it.
package demo
