package rpc

import (
	"maps"

	"google.golang.org/protobuf/proto"

	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// servedBy says which master may serve a method.
type servedBy int

const (
	byAny          servedBy = iota + 1 // whoever is asked
	byLeader                           // a standby forwards it, or holds it until somebody leads
	byLeaderStream                     // a stream: by hint, or proxied when asked to
)

// method is one row of the table of methods.
type method struct {
	by servedBy
	// changes: an answer that got lost leaves the outcome unknown.
	changes bool
	// proposal: the call does nothing but propose a command, which is judged
	// when it is applied: an elected master serves it before it has caught up.
	proposal bool
	// identified calls must carry a request id.
	identified bool
	// long calls wait for something and end at once when the server stops.
	long bool
	// leaderIf sends single requests of a byAny method to the leader.
	leaderIf func(req any) bool
	// reply makes the empty answer of a forwarded call.
	reply func() proto.Message
}

func empty() proto.Message { return &pb.Empty{} }

// methodTable has a row for every method of every service; a test compares it
// with what is registered.
func methodTable() map[string]method {
	command := method{by: byLeader, changes: true, identified: true, proposal: true, reply: empty}
	remove := command
	remove.proposal = false // it reads the membership
	drain := remove         // it reads which workers there are
	drain.reply = func() proto.Message { return &pb.DrainReply{} }
	register := command
	register.reply = func() proto.Message { return &pb.RegisterAppReply{} }
	table := map[string]method{
		pb.Cluster_RegisterApp_FullMethodName: register,
		// Its request ids are in the submissions.
		pb.Cluster_RegisterApps_FullMethodName: {
			by: byLeader, changes: true, proposal: true, reply: func() proto.Message { return &pb.RegisterAppsReply{} },
		},
		pb.Cluster_FinishApp_FullMethodName:     command,
		pb.Cluster_KillApp_FullMethodName:       command,
		pb.Cluster_KillExecutors_FullMethodName: command,
		pb.Cluster_SetTargets_FullMethodName:    command,
		pb.Cluster_SetSettings_FullMethodName:   command,
		pb.Cluster_RemoveMaster_FullMethodName:  remove,

		pb.Cluster_DrainWorkers_FullMethodName:   drain,
		pb.Cluster_UndrainWorkers_FullMethodName: drain,

		pb.Cluster_TransferLeadership_FullMethodName: {by: byLeader, changes: true, reply: empty},
		pb.Cluster_RaftServers_FullMethodName: {
			by: byLeader, reply: func() proto.Message { return &pb.RaftServersReply{} },
		},
		pb.Cluster_App_FullMethodName: {
			by:       byAny,
			leaderIf: func(req any) bool { r, ok := req.(*pb.AppRequest); return ok && r.GetStrong() },
			reply:    func() proto.Message { return &pb.AppView{} },
		},

		pb.Cluster_Staleness_FullMethodName:     {by: byAny},
		pb.Cluster_Status_FullMethodName:        {by: byAny},
		pb.Cluster_Apps_FullMethodName:          {by: byAny},
		pb.Cluster_Workers_FullMethodName:       {by: byAny},
		pb.Cluster_WaitApp_FullMethodName:       {by: byAny, long: true},
		pb.Cluster_Settings_FullMethodName:      {by: byAny},
		pb.Cluster_GossipMembers_FullMethodName: {by: byAny},
		pb.Cluster_GossipKeys_FullMethodName:    {by: byAny},
		// The same order twice is as one: no request id.
		pb.Cluster_ChangeGossipKeys_FullMethodName: {by: byAny, changes: true},
		pb.Cluster_ReadLog_FullMethodName:          {by: byAny, long: true},

		pb.Access_CreateToken_FullMethodName: command,
		pb.Access_RevokeToken_FullMethodName: command,
		pb.Access_Tokens_FullMethodName:      {by: byAny},
		pb.Access_Audit_FullMethodName:       {by: byAny},
		// It is made again by its maker, with more lines.
		pb.Access_RecordAudit_FullMethodName: {by: byAny},

		pb.Explain_Why_FullMethodName:     {by: byAny},
		pb.Explain_Waiting_FullMethodName: {by: byAny},
	}
	maps.Copy(table, driverMethods(command))
	maps.Copy(table, processMethods())
	return table
}

// driverMethods has the rows of drivers in cluster mode.
func driverMethods(command method) map[string]method {
	submit := command
	submit.reply = func() proto.Message { return &pb.SubmitDriverReply{} }
	return map[string]method{
		pb.Drivers_SubmitDriver_FullMethodName: submit,
		pb.Drivers_KillDriver_FullMethodName:   command,
		pb.Drivers_KillDrivers_FullMethodName:  command,
		pb.Drivers_Drivers_FullMethodName:      {by: byAny},
		pb.Drivers_Driver_FullMethodName: {
			by:       byAny,
			leaderIf: func(req any) bool { r, ok := req.(*pb.DriverRequest); return ok && r.GetStrong() },
			reply:    func() proto.Message { return &pb.DriverView{} },
		},
		pb.Drivers_WaitDriver_FullMethodName: {by: byAny, long: true},
	}
}

// processMethods has the rows of what the cluster's processes say to each other.
func processMethods() map[string]method {
	return map[string]method{
		pb.WorkerSessions_Session_FullMethodName: {by: byLeaderStream, long: true},
		pb.DriverSessions_Session_FullMethodName: {by: byLeaderStream, long: true},

		pb.Peer_Promise_FullMethodName:    {by: byAny, changes: true},
		pb.Peer_PeerStats_FullMethodName:  {by: byAny},
		pb.Peer_ReportHash_FullMethodName: {by: byAny},
		pb.Peer_LeaderGone_FullMethodName: {by: byAny},
		pb.Peer_Prove_FullMethodName:      {by: byAny},

		pb.Worker_Identify_FullMethodName: {by: byAny},
		pb.Worker_ReadLog_FullMethodName:  {by: byAny, long: true},

		pb.Executors_Session_FullMethodName: {by: byAny, long: true},

		pb.Content_Read_FullMethodName:     {by: byAny, long: true},
		pb.Content_Releases_FullMethodName: {by: byAny, long: true},
	}
}
