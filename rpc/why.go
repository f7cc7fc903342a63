package rpc

import (
	"context"
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// ExplainService is what a master offers to those who wait.
type ExplainService interface {
	// Why says why an application or driver waits, from this replica. The id may
	// be a unique prefix.
	Why(ctx context.Context, id string) (model.Why, error)
	// Waiting lists what waits, from this replica.
	Waiting(ctx context.Context) (model.WaitingView, error)
}

// explainServer serves an ExplainService.
type explainServer struct {
	pb.UnimplementedExplainServer
	svc ExplainService
}

// Why serves ExplainService.Why.
func (s *explainServer) Why(ctx context.Context, in *pb.WhyRequest) (*pb.WhyView, error) {
	out, err := s.svc.Why(ctx, in.GetId())
	return whyToWire(out), err
}

// Waiting serves ExplainService.Waiting.
func (s *explainServer) Waiting(ctx context.Context, _ *pb.Empty) (*pb.WaitingReply, error) {
	out, err := s.svc.Waiting(ctx)
	return waitingToWire(out), err
}

// explainClient calls an ExplainService.
type explainClient struct{ pb pb.ExplainClient }

var _ ExplainService = (*explainClient)(nil)

// ExplainOf calls the explanations of the master that svc calls, which is a
// client of ClusterClient.
func ExplainOf(svc ClusterService) (ExplainService, error) {
	c, ok := svc.(*clusterClient)
	if !ok {
		return nil, fmt.Errorf("%w: %T is no client of a master", model.ErrInvalid, svc)
	}
	return &explainClient{pb: pb.NewExplainClient(c.conn.cc)}, nil
}

// Why calls ExplainService.Why.
func (c *explainClient) Why(ctx context.Context, id string) (model.Why, error) {
	out, err := ask(ctx, c.pb.Why, &pb.WhyRequest{Id: id})
	return whyFromWire(out), err
}

// Waiting calls ExplainService.Waiting.
func (c *explainClient) Waiting(ctx context.Context) (model.WaitingView, error) {
	out, err := ask(ctx, c.pb.Waiting, &pb.Empty{})
	return waitingFromWire(out), err
}

func waitingToWire(v model.WaitingView) *pb.WaitingReply {
	return &pb.WaitingReply{Version: int64(v.Version), Staleness: stalenessToWire(v.Staleness), Waiting: each(v.Waiting, whyToWire)}
}

func waitingFromWire(p *pb.WaitingReply) model.WaitingView {
	return model.WaitingView{Version: int(p.GetVersion()), Staleness: stalenessFromWire(p.GetStaleness()), Waiting: listed(each(p.GetWaiting(), whyFromWire))}
}

func whyToWire(v model.Why) *pb.WhyView {
	return &pb.WhyView{
		Version: int64(v.Version), Staleness: stalenessToWire(v.Staleness), Id: v.ID, Kind: string(v.Kind), Name: validText(v.Name),
		User: validText(v.User), Queue: validText(v.Queue), State: v.State, Waiting: v.Waiting, Never: v.Never, Text: validText(v.Text),
		Reasons: each(v.Reasons, whyReasonToWire), Wanted: int64(v.Wanted), Live: int64(v.Live), Cores: int64(v.Cores),
		SubmittedAt: v.SubmittedAt, AgeMs: v.AgeMilli,
	}
}

func whyFromWire(p *pb.WhyView) model.Why {
	return model.Why{
		Version: int(p.GetVersion()), Staleness: stalenessFromWire(p.GetStaleness()), ID: p.GetId(), Kind: model.WhyKind(p.GetKind()),
		Name: p.GetName(), User: p.GetUser(), Queue: p.GetQueue(), State: p.GetState(), Waiting: p.GetWaiting(), Never: p.GetNever(),
		Text: p.GetText(), Reasons: listed(each(p.GetReasons(), whyReasonFromWire)), Wanted: int(p.GetWanted()), Live: int(p.GetLive()),
		Cores: int(p.GetCores()), SubmittedAt: p.GetSubmittedAt(), AgeMilli: p.GetAgeMs(),
	}
}

func whyReasonToWire(r model.WhyReason) *pb.WhyReason {
	return &pb.WhyReason{
		Code: string(r.Code), Text: validText(r.Text), Never: r.Never, Profile: int64(r.Profile), Resource: validText(r.Resource),
		Need: r.Need, Have: r.Have, Missing: r.Missing, Limit: r.Limit, Workers: int64(r.Workers),
		WorkerIds: each(r.WorkerIDs, func(id model.WorkerID) string { return string(id) }),
		Holders:   each(r.Holders, whyHolderToWire), LeftMs: r.LeftMilli,
	}
}

func whyReasonFromWire(p *pb.WhyReason) model.WhyReason {
	return model.WhyReason{
		Code: model.WhyCode(p.GetCode()), Text: p.GetText(), Never: p.GetNever(), Profile: int(p.GetProfile()), Resource: p.GetResource(),
		Need: p.GetNeed(), Have: p.GetHave(), Missing: p.GetMissing(), Limit: p.GetLimit(), Workers: int(p.GetWorkers()),
		WorkerIDs: listed(each(p.GetWorkerIds(), func(id string) model.WorkerID { return model.WorkerID(id) })),
		Holders:   listed(each(p.GetHolders(), whyHolderFromWire)), LeftMilli: p.GetLeftMs(),
	}
}

func whyHolderToWire(h model.WhyHolder) *pb.WhyHolder {
	return &pb.WhyHolder{Id: h.ID, Name: validText(h.Name), User: validText(h.User), Amount: h.Amount, Percent: int64(h.Percent)}
}

func whyHolderFromWire(p *pb.WhyHolder) model.WhyHolder {
	return model.WhyHolder{ID: p.GetId(), Name: p.GetName(), User: p.GetUser(), Amount: p.GetAmount(), Percent: int(p.GetPercent())}
}

// listed makes the JSON of an empty list [].
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
