package masterd

import (
	"context"
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// The leader may die after it has committed the removal to the table and
// before it has changed the Raft configuration.
func TestARemovalThatWasLeftHalfDoneIsFinished(t *testing.T) {
	ms := startCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	leader := leaderOf(ms)
	var victim model.MasterID
	for _, m := range ms {
		if m != leader {
			victim = m.ID()
		}
	}
	err := leader.propose(ctx, &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: string(victim)}}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the master to leave the raft configuration", func() error {
		servers, _, err := leader.node.Servers()
		if err != nil {
			return err
		}
		if len(servers) != 2 {
			return fmt.Errorf("it has %v", servers)
		}
		return nil
	})
	if err := newClient(t, leader).RemoveMaster(ctx, victim); err != nil {
		t.Errorf("a repeated removal: %v, want none", err)
	}
}
