package masterd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// The leader may die after it has committed the removal to the table and
// before it has changed the Raft configuration.
func TestARemovalThatWasLeftHalfDoneIsFinished(t *testing.T) {
	ms := startCluster(t, 3)
	if leader := leaderOf(ms); leader == ms[2] {
		ms[0], ms[2] = ms[2], ms[0] // one that stands by is removed
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	victim, others := ms[2], ms[:2]
	eventually(t, "the removal to be in the table", func() error {
		leader := leaderOf(others)
		if leader == nil {
			return errors.New("none of the others leads")
		}
		return leader.propose(ctx, &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: string(victim.ID())}}})
	})
	eventually(t, "the master to leave the raft configuration", func() error {
		servers, _, err := others[0].node.Servers()
		if err != nil {
			return err
		}
		if len(servers) != 2 {
			return fmt.Errorf("it has %v", servers)
		}
		return nil
	})
	if err := newClient(t, others...).RemoveMaster(ctx, victim.ID()); err != nil {
		t.Errorf("a repeated removal: %v, want none", err)
	}
}
