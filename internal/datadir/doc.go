// Package datadir makes and checks the directories that hold what nobody but
// the user of a process may read or change: data directories of daemons, and
// those with keys.
//
// It owns the rule of who may write there and its errors. It does not own what
// is in them. It imports nothing of ours; whoever keeps files imports it.
package datadir
