package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func driverOf(supervise bool) model.DriverSpec {
	return model.DriverSpec{
		Name: "driver", User: "ann", Cores: 1, MemoryMiB: 512, Supervise: supervise,
		Command: model.Command{Argv: []string{"./driver", "--fast"}},
	}
}

// fullDriverSpec has all fields in use.
func fullDriverSpec() model.DriverSpec {
	s := driverOf(true)
	s.Resources = map[string]int{"gpu": 1}
	s.Command.Env, s.Command.Dir = []string{"A=b"}, "/srv"
	s.Files = []model.File{{Name: "conf/job.hcl", Mode: 0o600, Data: []byte("x")}}
	s.Artifacts = []model.Artifact{{URL: "https://example.org/driver", SHA256: strings.Repeat("ab", 32), Name: "driver", Executable: true}}
	s.Disconnect, s.MaxRuntimeMilli = model.DisconnectSingleton, 3_600_000
	return s
}

func submitDriver(s model.DriverSpec) *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_SubmitDriver{SubmitDriver: &replogv1.SubmitDriver{Spec: DriverSpecToProto(s)}}}
}

func driverPlacement(d model.DriverID, worker string, inc uint64) *replogv1.DriverPlacement {
	return DriverPlacementToProto(model.DriverPlacement{Driver: d, Worker: model.WorkerID(worker), Incarnation: inc, Secret: secret})
}

func fullPlacement(d model.DriverID, worker string, inc uint64) *replogv1.DriverPlacement {
	p := driverPlacement(d, worker, inc)
	p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{"1"}}}
	return p
}

func placeDrivers(ps ...*replogv1.DriverPlacement) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_PlaceDrivers{PlaceDrivers: &replogv1.PlaceDrivers{Placements: ps}}}
}

func killDriver(d model.DriverID) *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_KillDriver{KillDriver: &replogv1.KillDriver{Driver: string(d), Reason: "by ann"}}}
}

func killDrivers() *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_KillDrivers{KillDrivers: &replogv1.KillDrivers{Reason: "by ann"}}}
}

func expireDrivers(ids ...model.DriverID) *replogv1.Command {
	p := &replogv1.ExpireDrivers{}
	for _, id := range ids {
		p.Drivers = append(p.Drivers, string(id))
	}
	return &replogv1.Command{Kind: &replogv1.Command_ExpireDrivers{ExpireDrivers: p}}
}

func (w *world) driver(id model.DriverID) *model.Driver {
	w.t.Helper()
	d, ok := w.v().Driver(id)
	if !ok {
		w.t.Fatalf("driver %s is not there", id)
	}
	return d
}

// driverIs fails unless the driver is in a state after so many attempts.
func (w *world) driverIs(id model.DriverID, state model.DriverState, attempt int) *model.Driver {
	w.t.Helper()
	d := w.driver(id)
	if d.State != state || d.Attempt != attempt {
		w.t.Fatalf("driver %s is %s after %d attempts (%s), want %s after %d", id, d.State, d.Attempt, d.Reason, state, attempt)
	}
	return d
}

// launch places a driver and has its worker report that it runs.
func (w *world) launch(id model.DriverID, worker string) {
	w.t.Helper()
	w.offerDriver(id, worker)
	w.report1(worker, says(id.Owner(), w.driver(id).Attempt, model.ExecutorRunning))
}

// offerDriver places a driver.
func (w *world) offerDriver(id model.DriverID, worker string) {
	w.t.Helper()
	inc := w.worker(model.WorkerID(worker)).Incarnation
	if v := w.must(placeDrivers(driverPlacement(id, worker, inc))).Placements[0]; v.Err() != nil {
		w.t.Fatalf("place %s on %s: %v", id, worker, v.Err())
	}
}

// refuses places a driver in vain.
func (w *world) refuses(id model.DriverID, worker string, want model.Rejection) {
	w.t.Helper()
	inc := w.worker(model.WorkerID(worker)).Incarnation
	if v := w.must(placeDrivers(driverPlacement(id, worker, inc))).Placements[0]; v.Rejection != want {
		w.t.Fatalf("place %s on %s: %q (%s), want %q", id, worker, v.Rejection, v.Text, want)
	}
}

func withDriver(cores ...int) func(t *testing.T, supervise bool) (*world, model.DriverID) {
	return func(t *testing.T, supervise bool) (*world, model.DriverID) {
		t.Helper()
		w := newWorld(t)
		w.withWorkers(2, append(cores, 4)[0])
		return w, w.must(submitDriver(driverOf(supervise))).Driver
	}
}

// mayPlace fails unless these drivers may be placed now, in this order.
func (w *world) mayPlace(want ...model.DriverID) {
	w.t.Helper()
	var got []model.DriverID
	w.v().At(w.tick).WaitingDrivers(func(d *model.Driver) bool {
		got = append(got, d.ID)
		return true
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("may be placed: %v, want %v", got, want)
	}
}

// ofDriver describes an application that an attempt registers.
func ofDriver(id model.DriverID, attempt int) model.AppSpec {
	s := driverSpec()
	s.Driver, s.Attempt = id, attempt
	return s
}
