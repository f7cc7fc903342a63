package raftnode

import "github.com/hashicorp/raft"

// leaderFilter is a filter of the library's observers that tells of changes of
// the known leader and of this node's own state, and wants nothing sent.
func leaderFilter(changed func()) raft.FilterFn {
	return func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			changed()
		}
		return false
	}
}
