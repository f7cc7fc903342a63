package masterd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/web"
)

// driversOfOne are drivers of one master: one has failed, one runs and has registered an application, one can never be placed.
type driversOfOne struct {
	failed, running, waiting model.DriverID
	app                      model.AppID
}

func startDrivers(ctx context.Context, t *testing.T, c *client.Client, w *scriptedWorker) driversOfOne {
	t.Helper()
	submit := func(name string, cores int, supervise bool) model.DriverID {
		reply, err := c.SubmitDriver(ctx, model.DriverSpec{
			Name: name, User: "ada", Cores: cores, MemoryMiB: 64, Supervise: supervise, Command: model.Command{Argv: []string{"/opt/" + name, "now"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Driver
	}
	var d driversOfOne
	d.failed = submit("failing", 1, false)
	ref := w.next("launch of the first driver", isLaunch).Launch.Ref
	w.report(1, running(ref))
	w.report(2, model.ExecutorReport{Ref: ref, State: model.ExecutorFailed, Cause: model.CauseApp, ExitCode: 3})
	d.running = submit("running", 1, true)
	w.report(3, running(w.next("launch of the second driver", isLaunch).Launch.Ref))
	spec := sleeper("owned")
	spec.Driver, spec.Attempt = d.running, 1
	app, err := c.RegisterApp(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	d.app = app.App
	w.report(4, running(w.next("launch of the executor", isLaunch).Launch.Ref))
	d.waiting = submit("waiting", 64, true)
	return d
}

// What pages, JSON, Spark's /json and metrics say of drivers is what the records say.
func TestDriversAreShownAsTheirRecordsAre(t *testing.T) {
	m, ctx := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	d := startDrivers(ctx, t, newClient(t, m), w)
	base := "http://" + m.HTTPAddr()
	eventually(t, "the list has all three", func() error { // a snapshot may be a moment old
		var list web.DriversView
		decodeFrom(t, base+"/v1/drivers?ended=1", &list)
		have := ""
		for _, x := range list.Drivers {
			have += fmt.Sprintf("%s %s %d %s %d %v;", x.ID, x.State, x.Attempt, x.Worker, x.QueuePosition, x.Apps)
		}
		want := fmt.Sprintf("%s RUNNING 1 worker-a 0 [%s];%s SUBMITTED 0  1 [];%s FAILED 1 worker-a 0 [];", d.running, d.app, d.waiting, d.failed)
		if have != want {
			return fmt.Errorf("got %s, want %s", have, want)
		}
		return nil
	})
	for path, texts := range map[string][]string{
		"/":                             {`<tr id="` + string(d.running) + `" data-v="RUNNING 1">`},
		"/drivers":                      {`<tr id="` + string(d.waiting) + `" data-v="SUBMITTED 0">`, `<tr id="` + string(d.failed) + `" data-v="FAILED 1">`},
		"/drivers/" + string(d.running): {"/apps/" + string(d.app), web.LogPath(d.running.Owner(), 1, "stdout"), "/workers/worker-a"},
		"/drivers/" + string(d.waiting): {"never fits", string(model.WhyNeverFits), "place 1 in the queue"},
		"/drivers/" + string(d.failed):  {"exit 3", "Exit code"},
		"/apps/" + string(d.app):        {"/drivers/" + string(d.running)},
		"/workers/worker-a":             {"/drivers/" + string(d.running), "/apps/" + string(d.app)},
		"/queue":                        {"/drivers/" + string(d.waiting)},
		"/metrics": {
			`hearth_drivers{state="RUNNING"} 1`, `hearth_drivers{state="SUBMITTED"} 1`, `hearth_drivers{state="FAILED"} 1`, "hearth_drivers_waiting 1",
		},
		"/json/clusterutilization": {`"waitingDrivers": 1`},
	} {
		code, body := get(t, base+path)
		if code != http.StatusOK {
			t.Errorf("%s: status %d", path, code)
		}
		for _, text := range texts {
			if !strings.Contains(string(body), text) {
				t.Errorf("%s lacks %q", path, text)
			}
		}
	}
	type driver struct{ ID, State, Worker, MainClass string }
	var spark struct{ ActiveDrivers, CompletedDrivers []driver }
	decodeFrom(t, base+"/json", &spark)
	if got, want := fmt.Sprint(spark.ActiveDrivers, spark.CompletedDrivers), fmt.Sprint(
		[]driver{{string(d.running), "RUNNING", "worker-a", "/opt/running"}, {string(d.waiting), "SUBMITTED", "None", "/opt/waiting"}},
		[]driver{{string(d.failed), "FAILED", "worker-a", "/opt/failing"}},
	); got != want {
		t.Errorf("Spark's lists are %s, want %s", got, want)
	}
	var one web.DriverDetail
	if decodeFrom(t, base+"/v1/drivers/"+string(d.failed), &one); one.Driver.ExitCode != 3 || len(one.Driver.Attempts) != 1 || one.Driver.Attempts[0].ExitCode != 3 {
		t.Errorf("got %+v, want the attempt with its exit code", one.Driver)
	}
}

func decodeFrom(t *testing.T, url string, v any) {
	t.Helper()
	code, body := get(t, url)
	if code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", url, code, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatal(err)
	}
}
