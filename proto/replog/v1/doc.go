// Package replogv1 holds the generated code of the replicated log and of
// snapshots: what masters write to disk and must be able to read for ever.
//
// Numbers of commands, records and fields are append-only; retired ones stay
// reserved. docs/formats/log.md and docs/formats/snapshot.md describe the
// formats around these messages. Only fsm converts them to model types;
// raftnode and masterd build commands, and offline tools read them.
package replogv1
