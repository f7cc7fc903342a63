// Package raftnode is a master's replica: it owns the Raft library, its log, stable and snapshot stores, the transport
// between masters, and the typed, batched way commands reach the replicated state.
//
// It is the only importer of hashicorp/raft, raft-boltdb, raft-wal and raft-autopilot, and lets none of their types
// out. Package fsm owns what a command means; masterd owns what a leader does with its term, who the members are and
// when leadership is handed over. This package imports neither rpc nor gossip: what it needs to know of peers (present
// addresses, liveness, statistics) comes in as functions.
//
// Imported by masterd, and by offline tools that open a data directory without a cluster.
package raftnode
