package rpc

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// WorkerChoice names workers by id, or the beginning of one, and by host without
// regard to case.
type WorkerChoice struct {
	IDs   []string
	Hosts []string
}

// Validate checks the choice; errors wrap model.ErrInvalid.
func (c WorkerChoice) Validate() error {
	if n := len(c.IDs) + len(c.Hosts); n == 0 || n > model.MaxWorkerChoices {
		return fmt.Errorf("%w: %d workers and hosts are named: must be between 1 and %d", model.ErrInvalid, n, model.MaxWorkerChoices)
	}
	return nil
}

// DrainRequest takes workers out of service.
type DrainRequest struct {
	Workers WorkerChoice
	Terms   model.DrainTerms
}

// Validate checks the request; errors wrap model.ErrInvalid.
func (r DrainRequest) Validate() error {
	if err := r.Workers.Validate(); err != nil {
		return err
	}
	return r.Terms.Validate()
}

// DrainReply says which workers were named, by id.
type DrainReply struct {
	Workers []model.WorkerID
}

func workerChoiceToWire(c WorkerChoice) *pb.WorkerChoice {
	return &pb.WorkerChoice{Ids: c.IDs, Hosts: c.Hosts}
}

func workerChoiceFromWire(c *pb.WorkerChoice) WorkerChoice {
	return WorkerChoice{IDs: c.GetIds(), Hosts: c.GetHosts()}
}

func drainRequestToWire(r DrainRequest) *pb.DrainWorkersRequest {
	return &pb.DrainWorkersRequest{
		Workers: workerChoiceToWire(r.Workers), Reason: r.Terms.Reason, DeadlineMs: r.Terms.DeadlineMilli, IdleOnly: r.Terms.IdleOnly,
	}
}

func drainRequestFromWire(r *pb.DrainWorkersRequest) DrainRequest {
	return DrainRequest{
		Workers: workerChoiceFromWire(r.GetWorkers()),
		Terms:   model.DrainTerms{Reason: r.GetReason(), DeadlineMilli: r.GetDeadlineMs(), IdleOnly: r.GetIdleOnly()},
	}
}

func drainReplyToWire(r DrainReply) *pb.DrainReply {
	return &pb.DrainReply{Workers: each(r.Workers, str[model.WorkerID, string])}
}

func drainReplyFromWire(r *pb.DrainReply) DrainReply {
	return DrainReply{Workers: each(r.GetWorkers(), str[string, model.WorkerID])}
}

func drainTermsToWire(t *model.DrainTerms) *pb.WorkerDrain {
	return &pb.WorkerDrain{DeadlineMs: t.DeadlineMilli, Reason: t.Reason, IdleOnly: t.IdleOnly}
}

func drainTermsFromWire(t *pb.WorkerDrain) *model.DrainTerms {
	return &model.DrainTerms{DeadlineMilli: t.GetDeadlineMs(), Reason: t.GetReason(), IdleOnly: t.GetIdleOnly()}
}

func drainViewToWire(v *model.DrainView) *pb.DrainView {
	if v == nil {
		return nil
	}
	return &pb.DrainView{Reason: v.Reason, By: v.By, Since: v.Since, DeadlineLeftMs: v.DeadlineLeft, IdleOnly: v.IdleOnly}
}

func drainViewFromWire(v *pb.DrainView) *model.DrainView {
	if v == nil {
		return nil
	}
	return &model.DrainView{Reason: v.GetReason(), By: v.GetBy(), Since: v.GetSince(), DeadlineLeft: v.GetDeadlineLeftMs(), IdleOnly: v.GetIdleOnly()}
}
