package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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

// DrainWorkers calls ClusterService.DrainWorkers.
func (c *clusterClient) DrainWorkers(ctx context.Context, call CallInfo, req DrainRequest) (DrainReply, error) {
	out, err := order(withCall(ctx, c.conn, call), c.pb.DrainWorkers, drainRequestToWire(req))
	return drainReplyFromWire(out), err
}

// UndrainWorkers calls ClusterService.UndrainWorkers.
func (c *clusterClient) UndrainWorkers(ctx context.Context, call CallInfo, workers WorkerChoice) (DrainReply, error) {
	out, err := order(withCall(ctx, c.conn, call), c.pb.UndrainWorkers, &pb.UndrainWorkersRequest{Workers: workerChoiceToWire(workers)})
	return drainReplyFromWire(out), err
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

// GossipKeys calls ClusterService.GossipKeys.
func (c *clusterClient) GossipKeys(ctx context.Context) (model.GossipKeysView, error) {
	out, err := ask(ctx, c.pb.GossipKeys, &pb.Empty{})
	return gossipKeysFromWire(out), err
}

// ChangeGossipKeys calls ClusterService.ChangeGossipKeys.
func (c *clusterClient) ChangeGossipKeys(ctx context.Context, o model.GossipKeyOrder) (model.GossipKeysView, error) {
	out, err := order(ctx, c.pb.ChangeGossipKeys, gossipKeyOrderToWire(o))
	return gossipKeysFromWire(out), err
}

// ReadLog calls ClusterService.ReadLog.
func (c *clusterClient) ReadLog(ctx context.Context, req LogRequest, send func(LogChunk) error) error {
	return receiveLog(ctx, c.pb.ReadLog, req, send)
}

// errLogStalled ends the reading of a log whose server says nothing any more.
var errLogStalled = fmt.Errorf("%w: no piece of the log came within %s", model.ErrUnavailable, UnaryTimeout)

type openLogFunc func(context.Context, *pb.LogRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.LogChunk], error)

// receiveLog reads a log to its end. Each piece has the deadline of a call,
// unless the log is followed: then only a dead connection ends the wait.
func receiveLog(ctx context.Context, open openLogFunc, req LogRequest, send func(LogChunk) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !req.Follow {
		idle := time.AfterFunc(UnaryTimeout, func() { cancel(errLogStalled) })
		defer idle.Stop()
		deliver := send
		send = func(c LogChunk) error {
			idle.Reset(UnaryTimeout)
			return deliver(c)
		}
	}
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
			if context.Cause(ctx) == errLogStalled { //nolint:errorlint // our own, never wrapped
				return errLogStalled
			}
			return fromStatus(err)
		}
		if err := send(logChunkFromWire(c)); err != nil {
			return err
		}
	}
}
