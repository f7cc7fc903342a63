// Package fsm is the replicated state of a cluster: a pure function from a
// state and a log entry to the next state, the read view of it, its
// invariants, its hash, and its snapshots.
//
// It owns every rule of what a command may change. It does not own how entries
// get into the log (raftnode), who may propose them or when (masterd), or
// where executors should go (scheduler). It reads no clock, makes no random
// choice, logs nothing and starts no goroutine: the same entries give the same
// state on every replica, and in a test.
//
// Masters, offline tools and simulations may import it. Workers, drivers,
// executors, the web pages and the command line must not.
//
// # Offers that shrink
//
// A worker may come back with less than its executors hold. The registration
// is accepted, because what it says is true, and the record is flagged
// Overcommitted. Nothing new is placed there until what is held fits again,
// which clears the flag. The invariant is therefore: used ≤ offered, or the
// flag is set; and the flag is set only while used > offered.
//
// # Ignorable commands
//
// A command of an unknown kind whose envelope says "ignorable" is skipped but
// for its tick. Its writer must give it no request id and must keep it from
// changing anything the state hash covers, or replicas of two versions differ.
package fsm
