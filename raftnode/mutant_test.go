//go:build !mutant

package raftnode

import (
	"testing"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// What is shipped holds nothing of the mutant.
func TestTheShippedBuildAnswersNothingEarly(t *testing.T) {
	p := &proposal{cmds: []*replogv1.Command{{RequestId: "req-1"}}, done: make(chan verdict, 1)}
	rest := (*Node)(nil).answerEarly([]*proposal{p}, nil)
	if len(rest) != 1 || rest[0] != p || len(p.done) != 0 {
		t.Errorf("%d of 1 proposals wait for their entry, %d are answered", len(rest), len(p.done))
	}
}
