package rpc

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// rule says who may call a method (ADR 0028).
type rule struct {
	// machines are the roles of the certificates that may call it. A connection
	// without TLS has no role; it passes, because such a server trusts its network.
	machines []tlsconf.Role
	// drivers: attempts of drivers in cluster mode may call it too (ADR 0041).
	drivers bool
	// person is the least role of a person who may call it with a client's
	// certificate or without TLS; RoleNone: it is called by programs, or what it
	// asks is proved by the session token in the request.
	person model.Role
	// proof: the caller proves itself in the stream, to the service, by the
	// secret of its executor. It has no certificate of the cluster.
	proof bool
	// noted: a call that was carried out is told to AccessPolicy.Note, because no
	// command of the replicated log stands for it.
	noted bool
}

// ruleTable has a rule for every method of every service. A server with a method
// that has none does not serve.
func ruleTable() map[string]rule {
	users := []tlsconf.Role{tlsconf.RoleClient, tlsconf.RoleMaster}
	all := []tlsconf.Role{tlsconf.RoleClient, tlsconf.RoleMaster, tlsconf.RoleWorker}
	viewer := rule{machines: users, person: model.RoleViewer}
	reader := viewer // what programs need to follow their own work
	reader.drivers = true
	submitter := rule{machines: users, person: model.RoleSubmitter}
	own := submitter // the replicated state looks whose it is
	own.drivers = true
	operator := rule{machines: users, person: model.RoleOperator}
	changed := operator
	changed.noted = true
	session := rule{machines: users, drivers: true} // proved by the application's session token
	masters := rule{machines: []tlsconf.Role{tlsconf.RoleMaster}}
	worker := rule{machines: []tlsconf.Role{tlsconf.RoleWorker}}
	executor := rule{proof: true}
	return map[string]rule{
		pb.Cluster_Staleness_FullMethodName: {machines: all, drivers: true}, // who leads, and how far it is: what everybody needs to find the leader
		// A worker asks before it changes its cluster.
		pb.Cluster_Status_FullMethodName: {machines: all, drivers: true, person: model.RoleViewer},

		pb.Cluster_Apps_FullMethodName:          reader,
		pb.Cluster_App_FullMethodName:           reader,
		pb.Cluster_WaitApp_FullMethodName:       reader,
		pb.Cluster_Workers_FullMethodName:       reader,
		pb.Cluster_Settings_FullMethodName:      reader,
		pb.Cluster_RaftServers_FullMethodName:   viewer,
		pb.Cluster_GossipMembers_FullMethodName: viewer,
		pb.Cluster_GossipKeys_FullMethodName:    viewer,
		pb.Cluster_ReadLog_FullMethodName:       reader,

		pb.Cluster_RegisterApp_FullMethodName:   own,
		pb.Cluster_RegisterApps_FullMethodName:  own,
		pb.Cluster_KillApp_FullMethodName:       own, // its own; the replicated state looks who registered it
		pb.Cluster_KillExecutors_FullMethodName: own,
		pb.Cluster_FinishApp_FullMethodName:     session,
		pb.Cluster_SetTargets_FullMethodName:    session,

		pb.Cluster_SetSettings_FullMethodName:        operator,
		pb.Cluster_RemoveMaster_FullMethodName:       operator,
		pb.Cluster_DrainWorkers_FullMethodName:       operator,
		pb.Cluster_UndrainWorkers_FullMethodName:     operator,
		pb.Cluster_TransferLeadership_FullMethodName: changed,
		pb.Cluster_ChangeGossipKeys_FullMethodName:   changed,

		pb.Access_CreateToken_FullMethodName: operator,
		pb.Access_RevokeToken_FullMethodName: operator,
		pb.Access_Tokens_FullMethodName:      operator,
		pb.Access_Audit_FullMethodName:       operator,
		pb.Access_RecordAudit_FullMethodName: masters,

		pb.Explain_Why_FullMethodName:     reader,
		pb.Explain_Waiting_FullMethodName: reader,

		pb.Drivers_SubmitDriver_FullMethodName: submitter,
		pb.Drivers_KillDriver_FullMethodName:   submitter, // its own; the replicated state looks who submitted it
		pb.Drivers_KillDrivers_FullMethodName:  submitter,
		pb.Drivers_Drivers_FullMethodName:      reader,
		pb.Drivers_Driver_FullMethodName:       reader,
		pb.Drivers_WaitDriver_FullMethodName:   reader,

		pb.WorkerSessions_Session_FullMethodName: worker,
		pb.DriverSessions_Session_FullMethodName: session,

		pb.Peer_Promise_FullMethodName:    masters,
		pb.Peer_PeerStats_FullMethodName:  masters,
		pb.Peer_ReportHash_FullMethodName: masters,
		pb.Peer_LeaderGone_FullMethodName: masters,
		pb.Peer_Prove_FullMethodName:      masters,

		pb.Worker_Identify_FullMethodName: masters,
		pb.Worker_ReadLog_FullMethodName:  masters,

		pb.Executors_Session_FullMethodName: executor,
		pb.Content_Read_FullMethodName:      executor,
		pb.Content_Releases_FullMethodName:  executor,
	}
}

// unruled lists the registered methods without a rule.
func unruled(services map[string]grpc.ServiceInfo, rules map[string]rule) error {
	var without []string
	for service, info := range services {
		for _, m := range info.Methods {
			if name := "/" + service + "/" + m.Name; !rules[name].complete() {
				without = append(without, name)
			}
		}
	}
	if len(without) == 0 {
		return nil
	}
	slices.Sort(without)
	return fmt.Errorf("nothing says who may call %s: add it to the rules of package rpc", strings.Join(without, ", "))
}

// complete reports whether anybody at all may call the method.
func (r rule) complete() bool { return r.proof || len(r.machines) > 0 }
