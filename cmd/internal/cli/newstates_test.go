package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// future is a master of a later release, whose applications, drivers, executors and workers go through states that this build has
// never heard of. What is waited for changes once, from an active state to a final one.
type future struct {
	rpc.ClusterService
	rpc.DriversService
}

const (
	futureApp    = model.AppID("app-20261130061500-0001")
	futureDriver = model.DriverID("driver-20261130061500-0002")
)

func (future) app(after uint64) model.AppView {
	v := model.AppView{
		ID: futureApp, Name: "job", State: "HIBERNATING", Active: true, StartedAt: "2026-11-30T12:00:00.000Z", ChangeIndex: 1,
		Executors: []model.ExecutorView{
			{App: futureApp, ID: 0, State: "DREAMING", Active: true},
			{App: futureApp, ID: 1, State: "EVICTED", Terminal: true, ExitCode: 9},
		},
	}
	if after > 0 {
		v.State, v.Active, v.Terminal, v.ExitCode, v.Reason, v.ChangeIndex = "EVAPORATED", false, true, 42, "too warm", 2
	}
	return v
}

func (future) driver(after uint64) model.DriverView {
	v := model.DriverView{ID: futureDriver, Name: "job", State: "MOULTING", Active: true, Attempt: 1, ChangeIndex: 1}
	if after > 0 {
		v.State, v.Active, v.Terminal, v.ExitCode, v.Reason, v.ChangeIndex = "FLOWN", false, true, 7, "grown up", 2
	}
	return v
}

func (future) DrainWorkers(_ context.Context, _ rpc.CallInfo, r rpc.DrainRequest) (rpc.DrainReply, error) {
	return rpc.DrainReply{Workers: []model.WorkerID{model.WorkerID(r.Workers.IDs[0])}}, nil
}

func (future) Workers(context.Context) (rpc.WorkersReply, error) {
	drain := &model.DrainView{}
	return rpc.WorkersReply{Workers: []model.WorkerView{
		{ID: "worker-empty", State: "FALLOW", Active: true, Drain: drain},
		{ID: "worker-gone", State: "SOLD", Executors: 1, Drain: drain},
		{ID: "worker-busy", State: "FADING", Active: true, Executors: 1, Drain: drain},
	}}, nil
}

func (future) Staleness(context.Context) (model.Staleness, error) {
	return model.Staleness{Master: "m1", Leader: "m1", AppliedIndex: 1}, nil
}

func (future) RegisterApp(context.Context, rpc.CallInfo, model.AppSpec) (rpc.RegisterAppReply, error) {
	return rpc.RegisterAppReply{App: futureApp, Index: 1}, nil
}

func (future) KillExecutors(context.Context, rpc.CallInfo, rpc.KillExecutorsRequest) error {
	return nil
}

func (f future) Apps(context.Context, rpc.AppsRequest) (rpc.AppsReply, error) {
	return rpc.AppsReply{Apps: []model.AppView{f.app(0)}}, nil
}

func (f future) App(context.Context, rpc.AppRequest) (model.AppView, error) { return f.app(0), nil }

func (f future) WaitApp(_ context.Context, r rpc.WaitAppRequest) (model.AppView, error) {
	return f.app(r.After), nil
}

func (f future) Drivers(context.Context, rpc.DriversRequest) (rpc.DriversReply, error) {
	return rpc.DriversReply{Drivers: []model.DriverView{f.driver(0)}}, nil
}

func (f future) Driver(context.Context, rpc.DriverRequest) (model.DriverView, error) {
	return f.driver(0), nil
}

func (f future) WaitDriver(_ context.Context, r rpc.WaitDriverRequest) (model.DriverView, error) {
	return f.driver(r.After), nil
}

// TestUX05AStateThatThisBuildDoesNotKnowNeedsNoNewClient: commands wait, end and return codes by the flags and the exit code,
// and print the name as it is.
func TestUX05AStateThatThisBuildDoesNotKnowNeedsNoNewClient(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(rpc.ServerConfig{Listener: lis}, rpc.Services{Cluster: future{}, Submitted: future{}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	for _, tc := range []struct {
		name     string
		args     []string
		code     int
		out, err []string
	}{
		{"the end of an application is waited for", []string{"wait", string(futureApp)}, 42, nil, []string{"EVAPORATED: too warm"}},
		{"so it is after a submission", []string{"submit", "--wait", "--", "true"}, 42, []string{string(futureApp)}, []string{"EVAPORATED: too warm"}},
		{"what has started is placed", []string{"submit", "--", "true"}, 0, []string{string(futureApp)}, nil},
		{"the end of a driver is waited for", []string{"driver", "wait", string(futureDriver)}, 7, nil, []string{"FLOWN: grown up"}},
		{"applications are listed", []string{"apps"}, 0, []string{"HIBERNATING"}, nil},
		{"executors are listed, ended ones with their code", []string{"app", string(futureApp)}, 0, []string{"HIBERNATING", "DREAMING", "EVICTED", " 9 "}, nil},
		{"the flags are in the JSON", []string{"app", string(futureApp), "-o", "json"}, 0, []string{`"state": "EVICTED",` + "\n      \"active\": false,\n      \"terminal\": true"}, nil},
		{"drivers are listed", []string{"drivers"}, 0, []string{"MOULTING"}, nil},
		{"a driver is described", []string{"driver", "status", string(futureDriver)}, 0, []string{"MOULTING"}, nil},
		{"a drain is over when nothing is left", []string{"drain", "worker-empty", "--wait"}, 0, []string{"FALLOW"}, nil},
		{"or the worker is gone", []string{"drain", "worker-gone", "--wait"}, 0, []string{"SOLD"}, nil},
		{"not before", []string{"drain", "worker-busy", "--wait", "--timeout", "100ms"}, 124, nil, []string{"FADING with 1 executors"}},
		{"what is active can be ended", []string{"kill", string(futureApp) + "/0"}, 0, nil, nil},
		{"what has ended cannot", []string{"kill", string(futureApp) + "/1"}, 1, nil, []string{"EVICTED"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{tc.args[0], "--masters", lis.Addr().String()}, tc.args[1:]...)
			if tc.args[0] == "driver" {
				args = append([]string{"driver", tc.args[1], "--masters", lis.Addr().String()}, tc.args[2:]...)
			}
			code := execute(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: []string{"HOME=/nonexistent"}})
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in the output\n%s", want, out.String())
				}
			}
			for _, want := range tc.err {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%q is missing in the errors\n%s", want, errs.String())
				}
			}
			if len(tc.err) == 0 && errs.Len() > 0 {
				t.Errorf("unexpected errors\n%s", errs.String())
			}
		})
	}
}
