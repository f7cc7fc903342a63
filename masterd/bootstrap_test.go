package masterd

import (
	"errors"
	"testing"

	"github.com/hearthd/hearth/model"
)

// A master that promised itself to a proposer that is gone, and missed that
// others have founded a cluster without the two.
func TestAnOldPromiseDoesNotKeepAMasterOutOfAnotherCluster(t *testing.T) {
	founder := startCluster(t, 1)[0]
	dir := t.TempDir()
	id, err := openIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	old := promise{From: "master-gone", Cluster: newCluster(), Members: []model.MasterID{"master-gone", id.ID()}}
	if err := errors.Join(id.Promise(old), id.Close()); err != nil {
		t.Fatal(err)
	}
	m := startMaster(t, dir, []string{founder.SerfAddr()}, 3)
	m.promiseSeen.Store(-2 * promiseExpiry.Milliseconds()) // long ago
	want := founder.id.Settled()
	eventually(t, "the master to join the cluster that exists", func() error {
		if got := m.id.Settled(); got != want {
			return errors.New("it belongs to " + got.String())
		}
		return nil
	})
}
