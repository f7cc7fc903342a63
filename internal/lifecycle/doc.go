// Package lifecycle runs the long-lived parts of a process as one group: the
// first part to return stops all the others, in a defined order, and every
// error is reported.
//
// It owns starting, interrupting and joining. It does not own signals, restarts
// or logging: a daemon maps signals to a context, and a part that wants to be
// restarted does so inside its own run function.
//
// It imports nothing of ours; any package may import it.
package lifecycle
