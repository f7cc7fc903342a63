package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// absentApp is one that the cluster of witness does not have.
const absentApp = "app-20000101000000-0001"

// witness is a cluster with one application that notes what is ended.
type witness struct {
	future
	ended *[]string
}

func (w witness) App(ctx context.Context, r rpc.AppRequest) (model.AppView, error) {
	if r.ID == absentApp {
		return model.AppView{}, fmt.Errorf("%w: application %q", model.ErrNotFound, r.ID)
	}
	return w.future.App(ctx, r)
}

func (w witness) KillApp(_ context.Context, _ rpc.CallInfo, id model.AppID, _ string) error {
	*w.ended = append(*w.ended, string(id))
	return nil
}

func (w witness) KillDriver(_ context.Context, _ rpc.CallInfo, id model.DriverID, _ string) error {
	*w.ended = append(*w.ended, string(id))
	return nil
}

// A mistake among several ids ends nothing, and neither does an id that only says
// "application" or "driver", which would end whatever is alone there at the moment.
func TestAMistakeAmongIdsEndsNothing(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ended []string
	w := witness{ended: &ended}
	server := rpc.NewServer(rpc.ServerConfig{Listener: lis}, rpc.Services{Cluster: w, Submitted: w})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- server.Run(ctx) }()
	defer func() {
		cancel()
		<-over
	}()
	for _, tc := range []struct {
		name string
		args []string
		code int
		says string
		ends string // with spaces
	}{
		{"the second is not there", []string{"kill", string(futureApp), absentApp}, exitFailed, absentApp, ""},
		{"an id names the kind only", []string{"kill", "app-"}, exitUsage, "names nothing in particular", ""},
		{"so does that of a driver", []string{"kill", "driver-"}, exitUsage, "names nothing in particular", ""},
		{"and the driver's own command is as careful", []string{"driver", "kill", "driver-"}, exitUsage, "names nothing in particular", ""},
		{"several are ended in order, by their whole ids", []string{"kill", string(futureApp)[:12], string(futureDriver)[:12]}, exitOK, "ended " + string(futureApp) + ", " + string(futureDriver), string(futureApp) + " " + string(futureDriver)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ended = nil
			var out, errs bytes.Buffer
			args := append(tc.args, "--masters", lis.Addr().String())
			code := execute(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: []string{"HOME=/nonexistent"}})
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, errs.String())
			}
			if text := out.String() + errs.String(); !strings.Contains(text, tc.says) {
				t.Errorf("%q is missing in %s", tc.says, text)
			}
			if got := strings.Join(ended, " "); got != tc.ends {
				t.Errorf("ended %q, want %q", got, tc.ends)
			}
		})
	}
}
