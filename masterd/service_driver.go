package masterd

import (
	"context"
	"fmt"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// driversService is what this master offers for drivers in cluster mode.
type driversService struct{ m *Master }

var _ rpc.DriversService = driversService{}

// SubmitDriver commits a driver, which then waits for a worker.
func (s driversService) SubmitDriver(ctx context.Context, call rpc.CallInfo, spec model.DriverSpec) (rpc.SubmitDriverReply, error) {
	if err := spec.Validate(); err != nil {
		return rpc.SubmitDriverReply{}, err
	}
	res, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_SubmitDriver{SubmitDriver: &replogv1.SubmitDriver{
		Spec: fsm.DriverSpecToProto(spec),
	}}})
	if err != nil {
		return rpc.SubmitDriverReply{}, err
	}
	return rpc.SubmitDriverReply{Driver: res.Driver, Index: res.Index, LeaderAddr: s.m.GRPCAddr()}, nil
}

// KillDriver commits the end of a driver.
func (s driversService) KillDriver(ctx context.Context, call rpc.CallInfo, id model.DriverID, reason string) error {
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_KillDriver{KillDriver: &replogv1.KillDriver{
		Driver: string(id), Reason: model.TrimReason(reason),
	}}})
	return err
}

// KillDrivers commits the end of every driver that the caller may end.
func (s driversService) KillDrivers(ctx context.Context, call rpc.CallInfo, reason string) error {
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_KillDrivers{KillDrivers: &replogv1.KillDrivers{
		Reason: model.TrimReason(reason),
	}}})
	return err
}

// Drivers lists drivers from this replica.
func (s driversService) Drivers(_ context.Context, req rpc.DriversRequest) (rpc.DriversReply, error) {
	v := s.m.fsm.View()
	return rpc.DriversReply{Staleness: s.m.staleness(v), Drivers: driverViews(v, req.Ended)}, nil
}

// Driver describes one driver. A strong read is answered by the leader after a
// quorum has confirmed that it leads.
func (s driversService) Driver(ctx context.Context, req rpc.DriverRequest) (model.DriverView, error) {
	if req.Strong {
		if s.m.leading.Load() == nil {
			return model.DriverView{}, s.m.notLeader()
		}
		if err := s.m.node.VerifyLeader(ctx); err != nil {
			return model.DriverView{}, fmt.Errorf("verify leadership: %w", err)
		}
	}
	v := s.m.fsm.View()
	d, err := findDriver(v, req.ID)
	if err != nil {
		return model.DriverView{}, err
	}
	return driverDetail(v, d), nil
}

// WaitDriver answers when the driver has changed or ended.
func (s driversService) WaitDriver(ctx context.Context, req rpc.WaitDriverRequest) (model.DriverView, error) {
	wake, unwatch := s.m.hub.watchApp(req.ID.Owner())
	defer unwatch()
	for {
		v := s.m.fsm.View()
		d, ok := v.Driver(req.ID)
		if !ok {
			return model.DriverView{}, fmt.Errorf("%w: driver %s", model.ErrNotFound, req.ID)
		}
		if d.State.Terminal() || d.ChangeIndex > req.After {
			return driverDetail(v, d), nil
		}
		select {
		case <-ctx.Done():
			return model.DriverView{}, ctx.Err()
		case <-wake:
		}
	}
}
