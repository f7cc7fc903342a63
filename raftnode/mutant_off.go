//go:build !mutant

package raftnode

// answerEarly answers nothing and returns the proposals that are to be answered
// once their entry is committed and applied, which are all of them. The build
// tag mutant replaces it, to show that the tests find a master which does not
// wait.
func (n *Node) answerEarly(batch []*proposal, _ []byte) []*proposal { return batch }
