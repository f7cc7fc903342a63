package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

const (
	nightly = "driver-20261130120000-0001"
	patient = "driver-20261130120000-0002"
)

// drivenFake has a driver with two applications, one of which has ended, and a driver that waits.
func drivenFake() *fakeSource {
	s := newFake()
	s.snap.Cluster.Apps[0].Driver = nightly
	s.snap.Ended[0].Driver = nightly
	s.snap.Drivers[0].Apps = []model.AppID{s.snap.Cluster.Apps[0].ID}
	why := fakeWhy(patient, "patient", true)
	why.Kind, why.State = model.WhyDriver, string(model.DriverSubmitted)
	s.waiting = []model.Why{why}
	return s
}

func TestTheDriversPageListsQueuedRunningAndEndedOnes(t *testing.T) {
	t.Parallel()
	h := handlerOf(drivenFake())
	for _, target := range []string{"/drivers", "/"} {
		page := get(t, h, target)
		wants(t, page,
			"nightly", "patient", "yesterday", `href="/drivers/`+nightly+`"`, `data-v="RUNNING 2"`, `data-v="SUBMITTED 0"`, `data-v="ERROR 1"`,
			`<span class="pill bad">ERROR</span>`, `<span class="pill busy">SUBMITTED</span>`,
			`href="/workers/worker-1111111111"`, "20 min 0 s ago", "1 min 15 s ago", "took 1 h 0 min", "place 1 in the queue", ">yes<",
			`href="/logs/`+nightly+`/2/stdout"`, `href="/logs/`+nightly+`/2/stderr"`, `href="/apps?q=`+nightly+`">1 active`)
		if strings.Contains(page, "/logs/"+patient) {
			t.Errorf("%s leads to the output of a driver that was never launched", target)
		}
		newest, older, ended := strings.Index(page, `<tr id="`+patient), strings.Index(page, `<tr id="`+nightly), strings.Index(page, `<tr id="driver-20261130120000-0000`)
		if newest > older || older > ended {
			t.Errorf("%s: rows at %d, %d, %d; want the newest first and ended ones last", target, newest, older, ended)
		}
	}
	wants(t, get(t, h, "/drivers?state=submitted"), "1–1 of 1, 3 in all", "<option selected>SUBMITTED</option>")
	wants(t, get(t, h, "/apps?q="+nightly), "1–2 of 2, 3 in all", "sorting", "done")
	none := newFake()
	none.snap.Drivers, none.snap.EndedDrivers = nil, nil
	h = handlerOf(none)
	wants(t, get(t, h, "/drivers"), "No drivers.")
	if strings.Contains(get(t, h, "/"), "in cluster mode") {
		t.Error("the overview has a table of drivers where there are none")
	}
}

func TestADriversPageShowsItsAttemptsOutputApplicationsAndFields(t *testing.T) {
	t.Parallel()
	s := drivenFake()
	h := handlerOf(s)
	page := get(t, h, "/drivers/"+nightly)
	wants(t, page,
		"supervised, 0 recent failures", "1<small> core, 1 GiB</small>", "gpu × 1", "sorting", "done", ">Attempt</a>", "exit 3",
		"/logs/"+nightly+"/1/stdout", "/logs/"+nightly+"/2/stdout", "/workers/worker-1111111111")
	if strings.Contains(page, "waiting for memory") {
		t.Error("the page has an application that is not the driver's")
	}
	wants(t, page, `<section class="card" data-live="why"></section>`) // hidden: nothing is to be said
	for _, f := range fieldsOf(s.snap.Drivers[0]) {
		wants(t, page, "<dt>"+f.Name+"</dt>")
	}
	wants(t, get(t, h, "/drivers/"+patient), "not launched yet", "not supervised", "place 1 in the queue", "Waiting for 1 min 15 s", "NEVER_FITS", "never fits",
		"It has registered none.", "No attempts.")
	wants(t, get(t, h, "/drivers/driver-20261130120000-0000"), "Exit code", "ended 1 h 0 min ago")
	if code := ask(h, http.MethodGet, "/drivers/driver-none").Code; code != http.StatusNotFound {
		t.Errorf("an unknown driver is answered %d, want 404", code)
	}
}

// What names a driver leads to its page, wherever it stands.
func TestADriversProcessLeadsToTheDriverAndNotToAnApplication(t *testing.T) {
	t.Parallel()
	s := drivenFake()
	h := handlerOf(s)
	to := `href="/drivers/` + nightly + `"`
	wants(t, get(t, h, "/logs/"+nightly+"/2/stdout"), to, `<a href="/drivers" aria-current="page">`)
	wants(t, get(t, h, "/apps/"+string(s.snap.Cluster.Apps[0].ID)), to)
	wants(t, get(t, h, "/queue"), `href="/drivers/`+patient+`"`)
	s.onWorker = s.executors(nightly)
	page := get(t, h, "/workers/worker-1111111111")
	wants(t, page, to)
	if strings.Contains(page, "/apps/driver-") {
		t.Error("a worker's page takes a driver for an application")
	}
}

func TestDriversAreAnsweredAsJSON(t *testing.T) {
	t.Parallel()
	h := handlerOf(drivenFake())
	for target, want := range map[string][]string{
		"/v1/drivers":                        {"nightly", "patient"},
		"/v1/drivers?ended=1":                {"nightly", "patient", "yesterday"},
		"/v1/drivers?state=error&ended=1":    {"yesterday"},
		"/v1/drivers?rows=1&page=2":          {"patient"},
		"/v1/drivers?sort=-name&q=driver-20": {"patient", "nightly"},
	} {
		var v DriversView
		if err := json.Unmarshal([]byte(get(t, h, target)), &v); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range v.Drivers {
			names = append(names, d.Name)
		}
		if strings.Join(names, " ") != strings.Join(want, " ") || v.Version != model.ViewVersion || v.Staleness.AppliedIndex != 4711 {
			t.Errorf("%s: %v of version %d at %d, want %v", target, names, v.Version, v.Staleness.AppliedIndex, want)
		}
	}
	var one DriverDetail
	if err := json.Unmarshal([]byte(get(t, h, "/v1/drivers/"+nightly)), &one); err != nil || one.Driver.Attempt != 2 || len(one.Driver.Attempts) != 2 {
		t.Errorf("%+v, error %v: want attempt 2 of 2", one, err)
	}
	if code := ask(h, http.MethodGet, "/v1/drivers/driver-none").Code; code != http.StatusNotFound {
		t.Errorf("an unknown driver is answered %d, want 404", code)
	}
}
