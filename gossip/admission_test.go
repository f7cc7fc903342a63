package gossip

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"github.com/hearthd/hearth/model"
)

func peer(t *testing.T, id string, role Role, cluster model.ClusterIdentity) *serf.Member {
	t.Helper()
	encoded, err := encodeTags(Tags{Role: role, ID: id, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return &serf.Member{Name: id, Tags: encoded}
}

func TestWhoMayBeAMember(t *testing.T) {
	local := model.ClusterIdentity{ID: "here", Epoch: 2, EpochID: 20}
	none := model.ClusterIdentity{}
	tests := map[string]struct {
		local  model.ClusterIdentity
		peers  []*serf.Member
		refuse string // part of the error, empty if admitted
	}{
		"one of the same cluster": {local, []*serf.Member{peer(t, "p", RoleMaster, local)}, ""},
		"one without a cluster":   {local, []*serf.Member{peer(t, "p", RoleMaster, none)}, ""},
		"anyone while unbound":    {none, []*serf.Member{peer(t, "p", RoleMaster, local)}, ""},
		"one of another cluster": {
			local,
			[]*serf.Member{peer(t, "p", RoleWorker, model.ClusterIdentity{ID: "there", Epoch: 2, EpochID: 20})},
			"this node belongs to here (epoch 2), the peer to there (epoch 2)",
		},
		"a twin of the epoch": {
			local,
			[]*serf.Member{peer(t, "p", RoleWorker, model.ClusterIdentity{ID: "here", Epoch: 2, EpochID: 21})},
			"epoch 2",
		},
		"a master from before the recovery": {
			local,
			[]*serf.Member{peer(t, "p", RoleMaster, model.ClusterIdentity{ID: "here", Epoch: 1, EpochID: 10})},
			"epoch",
		},
		"a worker from before the recovery": {
			local,
			[]*serf.Member{peer(t, "p", RoleWorker, model.ClusterIdentity{ID: "here", Epoch: 1, EpochID: 10})},
			"",
		},
		"one that went through a newer recovery": {
			local,
			[]*serf.Member{peer(t, "p", RoleMaster, model.ClusterIdentity{ID: "here", Epoch: 3, EpochID: 30})},
			"",
		},
		"one that speaks something else": {
			none,
			[]*serf.Member{{Name: "p", Tags: map[string]string{"role": "consul"}}},
			"does not speak",
		},
		"itself, whatever it said before": {local, []*serf.Member{peer(t, "me", RoleMaster, clusterB)}, ""},
		"a list of ours with a dead foreigner": {
			local, []*serf.Member{peer(t, "f", RoleMaster, clusterB), peer(t, "p", RoleMaster, local)}, "",
		},
		"a list of foreigners": {
			local, []*serf.Member{peer(t, "f", RoleMaster, clusterB), peer(t, "g", RoleMaster, clusterB)}, "cluster-b",
		},
		"a list while unbound, with one that speaks something else": {
			none, []*serf.Member{{Name: "p"}, peer(t, "q", RoleMaster, none)}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAdmission(Tags{Role: RoleMaster, ID: "me", Cluster: tt.local}, hclog.NewNullLogger())
			err := a.NotifyMerge(tt.peers)
			if tt.refuse == "" && err != nil {
				t.Errorf("got %v, want admission", err)
			}
			if tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse)) {
				t.Errorf("got %v, want a refusal with %q", err, tt.refuse)
			}
		})
	}
}
