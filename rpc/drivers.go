package rpc

import (
	"context"
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// DriversService is what a master offers for drivers in cluster mode.
type DriversService interface {
	// SubmitDriver commits a driver (leader-only, idempotent by
	// CallInfo.RequestID). The answer says nothing about its start.
	SubmitDriver(ctx context.Context, call CallInfo, spec model.DriverSpec) (SubmitDriverReply, error)
	// KillDriver ends a driver (leader-only): one that waits at once, another one
	// once its process is gone.
	KillDriver(ctx context.Context, call CallInfo, id model.DriverID, reason string) error
	// KillDrivers ends every driver that the caller may end (leader-only).
	KillDrivers(ctx context.Context, call CallInfo, reason string) error
	// Drivers lists drivers from this replica; ended ones newest first.
	Drivers(ctx context.Context, req DriversRequest) (DriversReply, error)
	// Driver describes one driver, its attempts included. The id may be a unique
	// prefix. Strong asks the leader (forwarded) after a quorum check.
	Driver(ctx context.Context, req DriverRequest) (model.DriverView, error)
	// WaitDriver answers when the driver's ChangeIndex is above After or it has
	// ended, or when ctx ends; any master serves it from its replica.
	WaitDriver(ctx context.Context, req WaitDriverRequest) (model.DriverView, error)
}

// SubmitDriverReply answers a submission.
type SubmitDriverReply struct {
	Driver     model.DriverID
	Index      uint64
	LeaderAddr string
}

// DriversRequest selects drivers.
type DriversRequest struct {
	Ended bool // ended ones too
}

// DriversReply lists drivers with where the list comes from.
type DriversReply struct {
	Staleness model.Staleness
	Drivers   []model.DriverView
}

// DriverRequest names one driver.
type DriverRequest struct {
	ID     string // whole or a unique prefix
	Strong bool
}

// WaitDriverRequest waits for a change of one driver.
type WaitDriverRequest struct {
	ID    model.DriverID
	After uint64 // ChangeIndex already seen
}

// driversServer serves a DriversService.
type driversServer struct {
	pb.UnimplementedDriversServer
	svc DriversService
}

// SubmitDriver serves DriversService.SubmitDriver.
func (s *driversServer) SubmitDriver(ctx context.Context, in *pb.SubmitDriverRequest) (*pb.SubmitDriverReply, error) {
	spec := driverSpecFromWire(in.GetSpec())
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("submit driver %s: %w", spec.Name, err)
	}
	out, err := s.svc.SubmitDriver(ctx, callInfo(ctx), spec)
	if err != nil {
		return nil, err
	}
	return submitDriverReplyToWire(out), nil
}

// KillDriver serves DriversService.KillDriver.
func (s *driversServer) KillDriver(ctx context.Context, in *pb.KillDriverRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.KillDriver(ctx, callInfo(ctx), model.DriverID(in.GetId()), in.GetReason())
}

// KillDrivers serves DriversService.KillDrivers.
func (s *driversServer) KillDrivers(ctx context.Context, in *pb.KillDriversRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.KillDrivers(ctx, callInfo(ctx), in.GetReason())
}

// Drivers serves DriversService.Drivers.
func (s *driversServer) Drivers(ctx context.Context, in *pb.DriversRequest) (*pb.DriversReply, error) {
	out, err := s.svc.Drivers(ctx, DriversRequest{Ended: in.GetEnded()})
	return &pb.DriversReply{Staleness: stalenessToWire(out.Staleness), Drivers: each(out.Drivers, driverViewToWire)}, err
}

// Driver serves DriversService.Driver.
func (s *driversServer) Driver(ctx context.Context, in *pb.DriverRequest) (*pb.DriverView, error) {
	out, err := s.svc.Driver(ctx, DriverRequest{ID: in.GetId(), Strong: in.GetStrong()})
	return driverViewToWire(out), err
}

// WaitDriver serves DriversService.WaitDriver.
func (s *driversServer) WaitDriver(ctx context.Context, in *pb.WaitDriverRequest) (*pb.DriverView, error) {
	out, err := s.svc.WaitDriver(ctx, WaitDriverRequest{ID: model.DriverID(in.GetId()), After: in.GetAfter()})
	return driverViewToWire(out), err
}

// driversClient calls a DriversService.
type driversClient struct {
	conn *Conn
	pb   pb.DriversClient
}

var _ DriversService = (*driversClient)(nil)

// DriversClient calls a master's services for drivers in cluster mode; see
// ClusterClient.
func DriversClient(c *Conn) DriversService {
	return &driversClient{conn: c, pb: pb.NewDriversClient(c.cc)}
}

// DriversOf calls the services for drivers of the master that svc calls, which
// is a client of ClusterClient.
func DriversOf(svc ClusterService) (DriversService, error) {
	c, ok := svc.(*clusterClient)
	if !ok {
		return nil, fmt.Errorf("%w: %T is no client of a master", model.ErrInvalid, svc)
	}
	return DriversClient(c.conn), nil
}

// SubmitDriver calls DriversService.SubmitDriver.
func (c *driversClient) SubmitDriver(ctx context.Context, call CallInfo, spec model.DriverSpec) (SubmitDriverReply, error) {
	out, err := order(withCall(ctx, c.conn, call), c.pb.SubmitDriver, &pb.SubmitDriverRequest{Spec: driverSpecToWire(spec)})
	return submitDriverReplyFromWire(out), err
}

// KillDriver calls DriversService.KillDriver.
func (c *driversClient) KillDriver(ctx context.Context, call CallInfo, id model.DriverID, reason string) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.KillDriver, &pb.KillDriverRequest{Id: string(id), Reason: reason})
	return err
}

// KillDrivers calls DriversService.KillDrivers.
func (c *driversClient) KillDrivers(ctx context.Context, call CallInfo, reason string) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.KillDrivers, &pb.KillDriversRequest{Reason: reason})
	return err
}

// Drivers calls DriversService.Drivers.
func (c *driversClient) Drivers(ctx context.Context, req DriversRequest) (DriversReply, error) {
	out, err := ask(ctx, c.pb.Drivers, &pb.DriversRequest{Ended: req.Ended})
	return DriversReply{Staleness: stalenessFromWire(out.GetStaleness()), Drivers: each(out.GetDrivers(), driverViewFromWire)}, err
}

// Driver calls DriversService.Driver.
func (c *driversClient) Driver(ctx context.Context, req DriverRequest) (model.DriverView, error) {
	out, err := ask(ctx, c.pb.Driver, &pb.DriverRequest{Id: req.ID, Strong: req.Strong})
	return driverViewFromWire(out), err
}

// WaitDriver calls DriversService.WaitDriver.
func (c *driversClient) WaitDriver(ctx context.Context, req WaitDriverRequest) (model.DriverView, error) {
	out, err := ask(ctx, c.pb.WaitDriver, &pb.WaitDriverRequest{Id: string(req.ID), After: req.After})
	return driverViewFromWire(out), err
}
