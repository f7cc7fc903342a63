package rpc

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// peerServer serves a PeerService.
type peerServer struct {
	pb.UnimplementedPeerServer
	svc PeerService
}

// Promise serves PeerService.Promise.
func (s *peerServer) Promise(ctx context.Context, in *pb.PromiseRequest) (*pb.PromiseReply, error) {
	out, err := s.svc.Promise(ctx, promiseFromWire(in))
	return promiseReplyToWire(out), err
}

// PeerStats serves PeerService.PeerStats.
func (s *peerServer) PeerStats(ctx context.Context, _ *pb.Empty) (*pb.PeerStatsReply, error) {
	out, err := s.svc.PeerStats(ctx)
	return peerStatsToWire(out), err
}

// ReportHash serves PeerService.ReportHash.
func (s *peerServer) ReportHash(ctx context.Context, in *pb.HashReport) (*pb.HashVerdict, error) {
	req, err := hashReportFromWire(in)
	if err != nil {
		return nil, err
	}
	out, err := s.svc.ReportHash(ctx, req)
	return hashVerdictToWire(out), err
}

// LeaderGone serves PeerService.LeaderGone.
func (s *peerServer) LeaderGone(ctx context.Context, in *pb.LeaderGoneRequest) (*pb.LeaderGoneReply, error) {
	out, err := s.svc.LeaderGone(ctx, leaderGoneFromWire(in))
	return leaderGoneReplyToWire(out), err
}

// Prove serves PeerService.Prove.
func (s *peerServer) Prove(ctx context.Context, in *pb.ProveRequest) (*pb.ProveReply, error) {
	out, err := s.svc.Prove(ctx, proveFromWire(in))
	return proveReplyToWire(out), err
}

// peerClient calls a PeerService.
type peerClient struct{ pb pb.PeerClient }

var _ PeerService = (*peerClient)(nil)

// PeerClient calls another master. Safe for concurrent use; see ClusterClient.
func PeerClient(c *Conn) PeerService { return &peerClient{pb: pb.NewPeerClient(c.cc)} }

// Promise calls PeerService.Promise.
func (c *peerClient) Promise(ctx context.Context, req PromiseRequest) (PromiseReply, error) {
	out, err := order(ctx, c.pb.Promise, promiseToWire(req))
	return promiseReplyFromWire(out), err
}

// PeerStats calls PeerService.PeerStats.
func (c *peerClient) PeerStats(ctx context.Context) (PeerStatsReply, error) {
	out, err := ask(ctx, c.pb.PeerStats, &pb.Empty{})
	return peerStatsFromWire(out), err
}

// ReportHash calls PeerService.ReportHash.
func (c *peerClient) ReportHash(ctx context.Context, req HashReport) (HashVerdict, error) {
	out, err := ask(ctx, c.pb.ReportHash, hashReportToWire(req))
	return hashVerdictFromWire(out), err
}

// LeaderGone calls PeerService.LeaderGone.
func (c *peerClient) LeaderGone(ctx context.Context, req LeaderGoneRequest) (LeaderGoneReply, error) {
	out, err := ask(ctx, c.pb.LeaderGone, leaderGoneToWire(req))
	return leaderGoneReplyFromWire(out), err
}

// Prove calls PeerService.Prove.
func (c *peerClient) Prove(ctx context.Context, req ProveRequest) (ProveReply, error) {
	out, err := ask(ctx, c.pb.Prove, proveToWire(req))
	return proveReplyFromWire(out), err
}

// workerServer serves a WorkerService.
type workerServer struct {
	pb.UnimplementedWorkerServer
	svc WorkerService
}

// Identify serves WorkerService.Identify.
func (s *workerServer) Identify(ctx context.Context, _ *pb.Empty) (*pb.WorkerIdentity, error) {
	out, err := s.svc.Identify(ctx)
	return workerIdentityToWire(out), err
}

// ReadLog serves WorkerService.ReadLog.
func (s *workerServer) ReadLog(in *pb.LogRequest, ss grpc.ServerStreamingServer[pb.LogChunk]) error {
	return serveLog(in, ss, s.svc.ReadLog)
}

// workerClient calls a WorkerService.
type workerClient struct{ pb pb.WorkerClient }

var _ WorkerService = (*workerClient)(nil)

// WorkerClient calls a worker. Safe for concurrent use; see ClusterClient.
func WorkerClient(c *Conn) WorkerService { return &workerClient{pb: pb.NewWorkerClient(c.cc)} }

// Identify calls WorkerService.Identify.
func (c *workerClient) Identify(ctx context.Context) (WorkerIdentity, error) {
	out, err := ask(ctx, c.pb.Identify, &pb.Empty{})
	return workerIdentityFromWire(out), err
}

// ReadLog calls WorkerService.ReadLog.
func (c *workerClient) ReadLog(ctx context.Context, req LogRequest, send func(LogChunk) error) error {
	return receiveLog(ctx, c.pb.ReadLog, req, send)
}
