// Package cli turns command lines into calls: one file per verb, each built by
// a function that returns a cobra command. A verb loads its configuration,
// validates it, makes what it needs from the daemon or client packages and runs
// it; it writes to the given streams and returns an error. Main maps errors to
// exit codes.
//
// Only cmd/hearth imports it. It imports the daemons and the client, never fsm,
// raftnode or scheduler.
package cli
