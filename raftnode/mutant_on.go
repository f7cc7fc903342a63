//go:build mutant

package raftnode

import (
	"bytes"

	"github.com/hearthd/hearth/fsm"
)

// answerEarly is the bug that the proof of failover must find: clients are
// answered before their entry is committed, with the verdicts that it will have
// if it ever is. What masters propose themselves waits as it should, so that
// the cluster works until it fails. It returns what is still to be answered.
func (n *Node) answerEarly(batch []*proposal, entry []byte) []*proposal {
	for _, p := range batch {
		for _, cmd := range p.cmds {
			if cmd.RequestId == "" {
				return batch
			}
		}
	}
	rest, err := foretell(n.fsm, entry)
	if err != nil {
		n.log.Error("foretelling an entry failed", "err", err)
		return batch
	}
	for _, p := range batch {
		p.answer(rest[:len(p.cmds):len(p.cmds)], nil)
		rest = rest[len(p.cmds):]
	}
	return nil
}

// foretell applies an entry to a copy of the state.
func foretell(state *fsm.FSM, entry []byte) ([]fsm.Result, error) {
	var frozen bytes.Buffer
	if _, err := state.Snapshot().WriteTo(&frozen); err != nil {
		return nil, err
	}
	scratch := fsm.New()
	if err := scratch.Restore(&frozen); err != nil {
		return nil, err
	}
	outcome, err := scratch.Apply(scratch.View().Index()+1, entry)
	return outcome.Results, err
}
