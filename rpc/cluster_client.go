package rpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// clusterClient calls a ClusterService.
type clusterClient struct {
	conn *Conn
	pb   pb.ClusterClient
}

var _ ClusterService = (*clusterClient)(nil)

// ClusterClient calls a master's client services. Unary calls without a
// deadline get UnaryTimeout; mutating ones that may have been done although no
// answer came fail with model.ErrOutcomeUnknown. Safe for concurrent use.
func ClusterClient(c *Conn) ClusterService {
	return &clusterClient{conn: c, pb: pb.NewClusterClient(c.cc)}
}

// RegisterApp calls ClusterService.RegisterApp.
func (c *clusterClient) RegisterApp(ctx context.Context, call CallInfo, spec model.AppSpec) (RegisterAppReply, error) {
	out, err := order(withCall(ctx, c.conn, call), c.pb.RegisterApp, &pb.RegisterAppRequest{Spec: specToWire(spec)})
	return registerReplyFromWire(out), err
}

// FinishApp calls ClusterService.FinishApp.
func (c *clusterClient) FinishApp(ctx context.Context, call CallInfo, req FinishAppRequest) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.FinishApp, finishToWire(req))
	return err
}

// KillApp calls ClusterService.KillApp.
func (c *clusterClient) KillApp(ctx context.Context, call CallInfo, app model.AppID, reason string) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.KillApp, &pb.KillAppRequest{App: string(app), Reason: reason})
	return err
}

// KillExecutors calls ClusterService.KillExecutors.
func (c *clusterClient) KillExecutors(ctx context.Context, call CallInfo, req KillExecutorsRequest) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.KillExecutors, killExecutorsToWire(req))
	return err
}

// SetTargets calls ClusterService.SetTargets.
func (c *clusterClient) SetTargets(ctx context.Context, call CallInfo, req SetTargetsRequest) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.SetTargets, setTargetsToWire(req))
	return err
}

// Staleness calls ClusterService.Staleness.
func (c *clusterClient) Staleness(ctx context.Context) (model.Staleness, error) {
	out, err := ask(ctx, c.pb.Staleness, &pb.Empty{})
	return stalenessFromWire(out), err
}

// Status calls ClusterService.Status.
func (c *clusterClient) Status(ctx context.Context) (model.ClusterView, error) {
	out, err := ask(ctx, c.pb.Status, &pb.Empty{})
	return clusterViewFromWire(out), err
}

// Apps calls ClusterService.Apps.
func (c *clusterClient) Apps(ctx context.Context, req AppsRequest) (AppsReply, error) {
	out, err := ask(ctx, c.pb.Apps, &pb.AppsRequest{Ended: req.Ended})
	return appsReplyFromWire(out), err
}

// App calls ClusterService.App.
func (c *clusterClient) App(ctx context.Context, req AppRequest) (model.AppView, error) {
	out, err := ask(ctx, c.pb.App, appRequestToWire(req))
	return appViewFromWire(out), err
}

// Workers calls ClusterService.Workers.
func (c *clusterClient) Workers(ctx context.Context) (WorkersReply, error) {
	out, err := ask(ctx, c.pb.Workers, &pb.Empty{})
	return workersReplyFromWire(out), err
}

// WaitApp calls ClusterService.WaitApp.
func (c *clusterClient) WaitApp(ctx context.Context, req WaitAppRequest) (model.AppView, error) {
	out, err := ask(ctx, c.pb.WaitApp, waitAppToWire(req))
	return appViewFromWire(out), err
}

// Settings calls ClusterService.Settings.
func (c *clusterClient) Settings(ctx context.Context) (model.Settings, error) {
	out, err := ask(ctx, c.pb.Settings, &pb.Empty{})
	return settingsFromWire(out), err
}

// SetSettings calls ClusterService.SetSettings.
func (c *clusterClient) SetSettings(ctx context.Context, call CallInfo, values map[string]string) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.SetSettings, &pb.SetSettingsRequest{Values: values})
	return err
}

// RaftServers calls ClusterService.RaftServers.
func (c *clusterClient) RaftServers(ctx context.Context) ([]model.MasterView, error) {
	out, err := ask(ctx, c.pb.RaftServers, &pb.Empty{})
	return each(out.GetMasters(), masterViewFromWire), err
}

// TransferLeadership calls ClusterService.TransferLeadership.
func (c *clusterClient) TransferLeadership(ctx context.Context, to model.MasterID) error {
	_, err := order(ctx, c.pb.TransferLeadership, &pb.TransferLeadershipRequest{To: string(to)})
	return err
}

// RemoveMaster calls ClusterService.RemoveMaster.
func (c *clusterClient) RemoveMaster(ctx context.Context, call CallInfo, id model.MasterID) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.RemoveMaster, &pb.RemoveMasterRequest{Id: string(id)})
	return err
}

// GossipMembers calls ClusterService.GossipMembers.
func (c *clusterClient) GossipMembers(ctx context.Context) ([]model.GossipMemberView, error) {
	out, err := ask(ctx, c.pb.GossipMembers, &pb.Empty{})
	return each(out.GetMembers(), gossipViewFromWire), err
}

// ReadLog calls ClusterService.ReadLog.
func (c *clusterClient) ReadLog(ctx context.Context, req LogRequest, send func(LogChunk) error) error {
	return receiveLog(ctx, c.pb.ReadLog, req, send)
}

type openLogFunc func(context.Context, *pb.LogRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.LogChunk], error)

func receiveLog(ctx context.Context, open openLogFunc, req LogRequest, send func(LogChunk) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, logRequestToWire(req))
	if err != nil {
		return fromStatus(err)
	}
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fromStatus(err)
		}
		if err := send(logChunkFromWire(c)); err != nil {
			return err
		}
	}
}
