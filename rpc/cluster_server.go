package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// clusterServer serves a ClusterService.
type clusterServer struct {
	pb.UnimplementedClusterServer
	svc ClusterService
}

// RegisterApp serves ClusterService.RegisterApp.
func (s *clusterServer) RegisterApp(ctx context.Context, in *pb.RegisterAppRequest) (*pb.RegisterAppReply, error) {
	spec := specFromWire(in.GetSpec())
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("register application %s: %w", spec.Name, err)
	}
	out, err := s.svc.RegisterApp(ctx, callInfo(ctx), spec)
	if err != nil {
		return nil, err
	}
	return registerReplyToWire(out), nil
}

// FinishApp serves ClusterService.FinishApp.
func (s *clusterServer) FinishApp(ctx context.Context, in *pb.FinishAppRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.FinishApp(ctx, callInfo(ctx), finishFromWire(in))
}

// KillApp serves ClusterService.KillApp.
func (s *clusterServer) KillApp(ctx context.Context, in *pb.KillAppRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.KillApp(ctx, callInfo(ctx), model.AppID(in.GetApp()), in.GetReason())
}

// KillExecutors serves ClusterService.KillExecutors.
func (s *clusterServer) KillExecutors(ctx context.Context, in *pb.KillExecutorsRequest) (*pb.Empty, error) {
	req := killExecutorsFromWire(in)
	if err := req.Validate(); err != nil {
		return nil, fmt.Errorf("kill executors of %s: %w", req.App, err)
	}
	return &pb.Empty{}, s.svc.KillExecutors(ctx, callInfo(ctx), req)
}

// SetTargets serves ClusterService.SetTargets.
func (s *clusterServer) SetTargets(ctx context.Context, in *pb.SetTargetsRequest) (*pb.Empty, error) {
	req := setTargetsFromWire(in)
	if err := req.Validate(); err != nil {
		return nil, fmt.Errorf("set targets of %s: %w", req.App, err)
	}
	return &pb.Empty{}, s.svc.SetTargets(ctx, callInfo(ctx), req)
}

// Staleness serves ClusterService.Staleness.
func (s *clusterServer) Staleness(ctx context.Context, _ *pb.Empty) (*pb.StalenessView, error) {
	out, err := s.svc.Staleness(ctx)
	return stalenessToWire(out), err
}

// Status serves ClusterService.Status.
func (s *clusterServer) Status(ctx context.Context, _ *pb.Empty) (*pb.ClusterView, error) {
	out, err := s.svc.Status(ctx)
	return clusterViewToWire(out), err
}

// Apps serves ClusterService.Apps.
func (s *clusterServer) Apps(ctx context.Context, in *pb.AppsRequest) (*pb.AppsReply, error) {
	out, err := s.svc.Apps(ctx, AppsRequest{Ended: in.GetEnded()})
	return appsReplyToWire(out), err
}

// App serves ClusterService.App.
func (s *clusterServer) App(ctx context.Context, in *pb.AppRequest) (*pb.AppView, error) {
	out, err := s.svc.App(ctx, appRequestFromWire(in))
	return appViewToWire(out), err
}

// Workers serves ClusterService.Workers.
func (s *clusterServer) Workers(ctx context.Context, _ *pb.Empty) (*pb.WorkersReply, error) {
	out, err := s.svc.Workers(ctx)
	return workersReplyToWire(out), err
}

// WaitApp serves ClusterService.WaitApp.
func (s *clusterServer) WaitApp(ctx context.Context, in *pb.WaitAppRequest) (*pb.AppView, error) {
	out, err := s.svc.WaitApp(ctx, waitAppFromWire(in))
	return appViewToWire(out), err
}

// Settings serves ClusterService.Settings.
func (s *clusterServer) Settings(ctx context.Context, _ *pb.Empty) (*pb.SettingsView, error) {
	out, err := s.svc.Settings(ctx)
	return settingsToWire(out), err
}

// SetSettings serves ClusterService.SetSettings.
func (s *clusterServer) SetSettings(ctx context.Context, in *pb.SetSettingsRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.SetSettings(ctx, callInfo(ctx), in.GetValues())
}

// DrainWorkers serves ClusterService.DrainWorkers.
func (s *clusterServer) DrainWorkers(ctx context.Context, in *pb.DrainWorkersRequest) (*pb.DrainReply, error) {
	req := drainRequestFromWire(in)
	if err := req.Validate(); err != nil {
		return nil, err
	}
	out, err := s.svc.DrainWorkers(ctx, callInfo(ctx), req)
	return drainReplyToWire(out), err
}

// UndrainWorkers serves ClusterService.UndrainWorkers.
func (s *clusterServer) UndrainWorkers(ctx context.Context, in *pb.UndrainWorkersRequest) (*pb.DrainReply, error) {
	workers := workerChoiceFromWire(in.GetWorkers())
	if err := workers.Validate(); err != nil {
		return nil, err
	}
	out, err := s.svc.UndrainWorkers(ctx, callInfo(ctx), workers)
	return drainReplyToWire(out), err
}

// RaftServers serves ClusterService.RaftServers.
func (s *clusterServer) RaftServers(ctx context.Context, _ *pb.Empty) (*pb.RaftServersReply, error) {
	out, err := s.svc.RaftServers(ctx)
	return &pb.RaftServersReply{Masters: each(out, masterViewToWire)}, err
}

// TransferLeadership serves ClusterService.TransferLeadership.
func (s *clusterServer) TransferLeadership(ctx context.Context, in *pb.TransferLeadershipRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.TransferLeadership(ctx, model.MasterID(in.GetTo()))
}

// RemoveMaster serves ClusterService.RemoveMaster.
func (s *clusterServer) RemoveMaster(ctx context.Context, in *pb.RemoveMasterRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.RemoveMaster(ctx, callInfo(ctx), model.MasterID(in.GetId()))
}

// GossipMembers serves ClusterService.GossipMembers.
func (s *clusterServer) GossipMembers(ctx context.Context, _ *pb.Empty) (*pb.GossipMembersReply, error) {
	out, err := s.svc.GossipMembers(ctx)
	return &pb.GossipMembersReply{Members: each(out, gossipViewToWire)}, err
}

// GossipKeys serves ClusterService.GossipKeys.
func (s *clusterServer) GossipKeys(ctx context.Context, _ *pb.Empty) (*pb.GossipKeysView, error) {
	out, err := s.svc.GossipKeys(ctx)
	return gossipKeysToWire(out), err
}

// ChangeGossipKeys serves ClusterService.ChangeGossipKeys.
func (s *clusterServer) ChangeGossipKeys(ctx context.Context, in *pb.ChangeGossipKeysRequest) (*pb.GossipKeysView, error) {
	o := gossipKeyOrderFromWire(in)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	out, err := s.svc.ChangeGossipKeys(ctx, o)
	return gossipKeysToWire(out), err
}

// ReadLog serves ClusterService.ReadLog.
func (s *clusterServer) ReadLog(in *pb.LogRequest, ss grpc.ServerStreamingServer[pb.LogChunk]) error {
	return serveLog(in, ss, s.svc.ReadLog)
}

type readLogFunc func(context.Context, LogRequest, func(LogChunk) error) error

// serveLog cuts what a service sends into pieces of at most MaxLogChunk.
func serveLog(in *pb.LogRequest, ss grpc.ServerStreamingServer[pb.LogChunk], read readLogFunc) error {
	req := logRequestFromWire(in)
	if err := checkLogRequest(req); err != nil {
		return err
	}
	return read(ss.Context(), req, func(c LogChunk) error {
		for len(c.Data) > MaxLogChunk {
			if err := ss.Send(logChunkToWire(LogChunk{Offset: c.Offset, Data: c.Data[:MaxLogChunk]})); err != nil {
				return err
			}
			c.Offset, c.Data = c.Offset+MaxLogChunk, c.Data[MaxLogChunk:]
		}
		return ss.Send(logChunkToWire(c))
	})
}
