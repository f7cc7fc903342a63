package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func decoded(t *testing.T, h http.Handler, target string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(get(t, h, target)), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// What reads a Spark master's /json must find what it looks for: names, types, and totals of alive workers only.
func TestSparksJSONHasItsNamesAndCountsAliveWorkersOnly(t *testing.T) {
	h := handlerOf(newFake())
	v := decoded(t, h, "/json")
	want := map[string]any{
		"status": "STANDBY", "url": "hearth://10.0.0.1:7070", "aliveworkers": 1.0, "cores": 16.0, "coresused": 6.0, "memory": 32768.0, "memoryused": 6144.0,
	}
	for name, x := range want {
		if diff := gocmp.Diff(x, v[name]); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
	workers, _ := v["workers"].([]any)
	if len(workers) != 3 {
		t.Fatalf("%d workers", len(workers))
	}
	w, _ := workers[0].(map[string]any)
	for name, x := range map[string]any{
		"id": "worker-1111111111", "host": "alpha", "port": 7073.0, "webuiaddress": "http://alpha:8081/", "cores": 16.0, "coresused": 6.0, "coresfree": 10.0,
		"memory": 32768.0, "memoryused": 6144.0, "memoryfree": 26624.0, "state": "ALIVE",
		"resources":     map[string]any{"gpu": map[string]any{"name": "gpu", "addresses": []any{"0", "1"}}},
		"resourcesused": map[string]any{"gpu": map[string]any{"name": "gpu", "addresses": []any{"1"}}},
		"resourcesfree": map[string]any{"gpu": map[string]any{"name": "gpu", "addresses": []any{"0"}}},
		"cores_used":    6.0, "hostname": "alpha", // ours are there too
	} {
		if diff := gocmp.Diff(x, w[name]); diff != "" {
			t.Errorf("worker's %s (-want +got): %s", name, diff)
		}
	}
	if unknown, _ := workers[1].(map[string]any); unknown["state"] != "UNKNOWN" {
		t.Errorf("an unreachable worker is %v for Spark, want UNKNOWN", unknown["state"])
	}
	apps, _ := v["activeapps"].([]any)
	app, _ := apps[0].(map[string]any)
	if _, number := app["starttime"].(float64); !number || app["name"] != "sorting" || app["duration"] != 90_000.0 || app["submitdate"] != "Mon Nov 30 11:58:30 UTC 2026" {
		t.Errorf("application %v", app)
	}
	if n, _ := v["completedapps"].([]any); len(n) != 1 {
		t.Errorf("%d completed applications, want one", len(n))
	}
}

func TestSingleFieldsOfSparksJSON(t *testing.T) {
	h := handlerOf(newFake())
	for target, want := range map[string]map[string]any{
		"/json/aliveworkers": {"aliveworkers": 1.0},
		"/json/nonsense":     {"nonsense": ""},
		"/json/clusterutilization": {
			"waitingDrivers": 1.0, "cores": 16.0, "coresused": 6.0, "coresutilization": 37.0, "memory": 32768.0, "memoryused": 6144.0, "memoryutilization": 18.0,
		},
	} {
		if diff := gocmp.Diff(want, decoded(t, h, target)); diff != "" {
			t.Errorf("%s (-want +got): %s", target, diff)
		}
	}
	empty := newFake()
	empty.snap.Cluster.Workers = nil
	if v := decoded(t, handlerOf(empty), "/json/clusterutilization"); v["coresutilization"] != 100.0 || v["memoryutilization"] != 100.0 {
		t.Errorf("of nothing everything is in use: %v", v)
	}
}

// Texts and numbers are where Spark has them: the start of a driver is a text, that of an application a number.
func TestSparksJSONListsDriversInClusterMode(t *testing.T) {
	t.Parallel()
	s := newFake()
	for state, n := range map[model.DriverState]int{model.DriverRelaunching: 3, model.DriverKilling: 4} {
		s.snap.Drivers = append(s.snap.Drivers, fakeDriver(n, "more", state, 1, "", ""))
	}
	slices.SortFunc(s.snap.Drivers, func(a, b model.DriverView) int { return cmp.Compare(a.ID, b.ID) })
	s.snap.Drivers[3].Command, s.snap.Drivers[3].Resources = nil, nil
	v := decoded(t, handlerOf(s), "/json")
	driver := func(n int, state, worker, submitted, date string) map[string]any {
		return map[string]any{
			"id": fmt.Sprintf("driver-20261130120000-%04d", n), "starttime": submitted, "state": state, "cores": 1.0, "memory": 1024.0,
			"resources": []any{map[string]any{"name": "gpu", "amount": 1.0}}, "submitdate": date, "worker": worker, "mainclass": "/opt/nightly",
		}
	}
	bare := driver(4, "RUNNING", "worker-1111111111", "0", "")
	bare["mainclass"], bare["resources"] = "", []any{}
	for list, want := range map[string][]any{
		"activedrivers": {
			driver(1, "RUNNING", "worker-1111111111", "1796038800000", "Mon Nov 30 11:40:00 UTC 2026"),
			driver(2, "SUBMITTED", "None", "1796039925000", "Mon Nov 30 11:58:45 UTC 2026"),
			driver(3, "RELAUNCHING", "None", "0", ""),
			bare,
		},
		"completeddrivers": {driver(0, "ERROR", "worker-1111111111", "1796032800000", "Mon Nov 30 10:00:00 UTC 2026")},
	} {
		if diff := gocmp.Diff(want, v[list]); diff != "" {
			t.Errorf("%s (-want +got): %s", list, diff)
		}
	}
	if u := decoded(t, handlerOf(s), "/json/clusterutilization"); u["waitingDrivers"] != 2.0 {
		t.Errorf("%v drivers wait, want two", u["waitingDrivers"])
	}
	s.snap.Drivers, s.snap.EndedDrivers = nil, nil
	if v := decoded(t, handlerOf(s), "/json"); gocmp.Diff([]any{}, v["activedrivers"]) != "" || gocmp.Diff([]any{}, v["completeddrivers"]) != "" {
		t.Errorf("without drivers the lists are %v and %v, want empty ones", v["activedrivers"], v["completeddrivers"])
	}
}

func TestSparkKnowsADrainedWorkerAsDecommissioned(t *testing.T) {
	t.Parallel()
	for state, want := range map[model.WorkerState]string{
		model.WorkerAlive: "ALIVE", model.WorkerDraining: "DECOMMISSIONED", model.WorkerDrained: "DECOMMISSIONED",
		model.WorkerUnreachable: "UNKNOWN", model.WorkerRestarting: "UNKNOWN", model.WorkerLeft: "DEAD", model.WorkerDead: "DEAD",
	} {
		if got := sparkWorkerOf(model.WorkerView{State: state}, time.Now(), false).State; got != want {
			t.Errorf("%s is %s for Spark, want %s", state, got, want)
		}
	}
}
