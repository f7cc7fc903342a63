package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestTheOverviewShowsMastersWorkersApplicationsAndAlarms(t *testing.T) {
	page := get(t, handlerOf(newFake()), "/")
	wants(t, page,
		"standby · lag 12 ms", "master-bbbbbbbb", ">leader<", ">gone<", "http://10.0.0.2:8080/",
		"MASTER_STUCK", "its log does not advance", "since 1 min 0 s ago",
		"alpha", "6 / 16", "6 GiB / 32 GiB", "silent since a moment", "zone=east", "gpu × 2",
		"sorting", "waiting for memory", "1 min 30 s ago", "2 <span class=\"dim\">of 4</span>",
		"done", "took 1 min 0 s", "cluster-0123456789abcdef", "00112233445566778899aabbccddeeff")
	if strings.Index(page, "beta") > strings.Index(page, "alpha") {
		t.Error("a worker in trouble does not stand before one that is well")
	}
}

func TestDetailsShowEveryFieldOfTheView(t *testing.T) {
	s := newFake()
	h := handlerOf(s)
	worker := get(t, h, "/workers/worker-1111111111")
	for _, f := range fieldsOf(s.snap.Cluster.Workers[0]) {
		wants(t, worker, "<dt>"+f.Name+"</dt>")
	}
	wants(t, worker, "/logs/app-20261130120000-0001/1/stdout", "/logs/app-20261130120000-0001/1/stderr", "http://alpha:8081/")
	app := get(t, h, "/apps/app-20261130120000-0001")
	for _, f := range fieldsOf(s.snap.Cluster.Apps[0]) {
		wants(t, app, "<dt>"+f.Name+"</dt>")
	}
	wants(t, app, "exit 3", "/workers/worker-1111111111")
}

func TestListsAreFilteredSortedAndCut(t *testing.T) {
	s := newFake()
	s.snap.Cluster.Apps = nil
	for i := range 10_000 {
		a := fakeApp(i, fmt.Sprintf("app %05d", i), model.AppRunning, "", "")
		a.Cores = i
		s.snap.Cluster.Apps = append(s.snap.Cluster.Apps, a)
	}
	h := handlerOf(s)
	rows := regexp.MustCompile(`<tr id="app-`)
	for _, tc := range []struct {
		target string
		rows   int
		first  string
		wants  []string
	}{
		{"/apps", 50, "app 09999", []string{"1–50 of 10\u202f001", `rel="next" href="/apps?page=2"`}},
		{"/apps?page=2&rows=100", 100, "app 09899", []string{"101–200 of 10\u202f001", "page=1", "page=3", "rows=100"}},
		{"/apps?q=APP+0001", 10, "app 00019", []string{"1–10 of 10, 10\u202f001 in all", `value="app 0001"`}},
		{"/apps?sort=cores", 50, "done", []string{`aria-sort="ascending"`}},
		{"/apps?sort=-cores", 50, "app 09999", []string{`aria-sort="descending"`}},
		{"/apps?state=failed", 1, "done", []string{`<option selected>FAILED</option>`}},
		{"/apps?state=FAILED&q=nothing", 0, "", []string{"No applications fit the filter"}},
		{"/apps?page=99999999", 1, "", []string{"10\u202f001–10\u202f001 of 10\u202f001"}},
		{"/apps?rows=99999999", 500, "", nil},
		{"/apps?page=-4&rows=x&sort=nonsense", 50, "", nil},
	} {
		page := get(t, h, tc.target)
		at := rows.FindAllStringIndex(page, -1)
		if len(at) != tc.rows {
			t.Errorf("%s: got %d rows, want %d", tc.target, len(at), tc.rows)
		}
		if tc.first != "" && (len(at) == 0 || !strings.Contains(page[at[0][0]:at[0][0]+600], "<strong>"+tc.first)) {
			if !(tc.target == "/apps?sort=cores") {
				t.Errorf("%s: the first row is not that of %s", tc.target, tc.first)
			}
		}
		wants(t, page, tc.wants...)
	}
}

// What users, workers and executors may put into a page is text there and nothing else.
func TestHostileNamesAreShownAsText(t *testing.T) {
	hostile := `"><script>alert(1)</script><img src=x onerror=alert(2)>' onmouseover='x' javascript:alert(3) {{.}} </pre>` + "\x00\u202e"
	s := newFake()
	for i := range s.snap.Cluster.Apps {
		a := &s.snap.Cluster.Apps[i]
		a.Name, a.User, a.Reason = hostile, hostile, hostile
	}
	for i := range s.snap.Drivers {
		d := &s.snap.Drivers[i]
		d.Name, d.User, d.Reason, d.Command = hostile, hostile, hostile, []string{hostile}
		d.Resources = map[string]int{hostile: 1}
	}
	for i := range s.snap.Cluster.Workers {
		w := &s.snap.Cluster.Workers[i]
		w.Hostname, w.Reason, w.Version, w.HTTPAddr = hostile, hostile, hostile, `javascript:alert(1)//`
		w.Labels = map[string]string{hostile: hostile}
	}
	for i := range s.snap.Cluster.Masters {
		s.snap.Cluster.Masters[i].HTTPAddr = `"><script>alert(4)</script>`
	}
	s.snap.Cluster.Alarms[0].Text = hostile
	s.log = hostile + "\x1b[31m\x07\xff"
	h := handlerOf(s)
	for _, target := range []string{
		"/", "/workers", "/workers/worker-1111111111", "/apps", "/apps/app-20261130120000-0001", "/logs/app-20261130120000-0001/1/stdout",
		"/drivers", "/drivers/driver-20261130120000-0001", "/drivers/driver-20261130120000-0002",
		"/apps?q=" + url.QueryEscape(hostile) + "&sort=" + url.QueryEscape(hostile) + "&state=" + url.QueryEscape(hostile),
	} {
		page := get(t, h, target)
		if n := strings.Count(page, "<script"); n != 1 {
			t.Errorf("%s: %d script elements, want the page's own", target, n)
		}
		for _, bad := range []string{"<img src=x", "alert(1)</script>", "onmouseover='x'", `href="javascript:`, `<pre tabindex="0" data-log></pre>"`, "\x1b", "\x07"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page contains %q", target, bad)
			}
		}
	}
	for _, target := range []string{"/v1/cluster", "/json"} {
		w := ask(h, http.MethodGet, target)
		if body := w.Body.String(); strings.Contains(body, "<script>") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s could be taken for a page", target)
		}
	}
}

func TestAPageLoadsNothingFromElsewhereAndHasNoInlineScript(t *testing.T) {
	h := handlerOf(newFake())
	loads := regexp.MustCompile(`(?:src|<link [^>]*href)="([^"]*)"`)
	for _, target := range []string{"/", "/workers", "/apps", "/apps/app-20261130120000-0001", "/drivers", "/drivers/driver-20261130120000-0001", "/logs/app-20261130120000-0001/1/stdout", "/apps/none"} {
		w := ask(h, http.MethodGet, target)
		if got := w.Header().Get("Content-Security-Policy"); got != contentPolicy || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", target, got)
		}
		page := w.Body.String()
		for _, m := range loads.FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(m[1], "/static/") {
				t.Errorf("%s loads %s", target, m[1])
			}
			if file := ask(h, http.MethodGet, m[1]); file.Code != http.StatusOK || !strings.Contains(file.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s: status %d, %s", m[1], file.Code, file.Header().Get("Cache-Control"))
			}
		}
		if strings.Contains(page, " style=") || strings.Contains(page, "<style") || regexp.MustCompile(`\son[a-z]+=`).MatchString(page) {
			t.Errorf("%s has inline style or script, which its own policy forbids", target)
		}
	}
}

// SE-08: prefetchers and crawlers follow links, and other sites send forms.
func TestSE08NothingButAQuestionIsAnswered(t *testing.T) {
	h := handlerOf(newFake())
	seen := map[string]bool{}
	links := regexp.MustCompile(`href="(/[^"]*|\?[^"]*)"`)
	todo := []string{"/"}
	for len(todo) > 0 && len(seen) < 500 {
		target := todo[0]
		todo = todo[1:]
		if seen[target] {
			continue
		}
		seen[target] = true
		if target == "/metrics" {
			continue // not served by this fake
		}
		w := ask(h, http.MethodGet, target)
		if w.Code != http.StatusOK {
			t.Errorf("a link of the pages is broken: GET %s: status %d", target, w.Code)
		}
		if !strings.Contains(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range links.FindAllStringSubmatch(w.Body.String(), -1) {
			next := strings.ReplaceAll(m[1], "&amp;", "&")
			if path, _, _ := strings.Cut(target, "?"); strings.HasPrefix(next, "?") {
				next = path + next
			}
			todo = append(todo, next)
		}
	}
	if len(seen) < 20 {
		t.Errorf("the crawler found %d pages only", len(seen))
	}
	for target := range seen {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "KILL"} {
			if w := ask(h, method, target); w.Code != http.StatusForbidden {
				t.Errorf("%s %s: status %d, want 403", method, target, w.Code)
			}
		}
	}
	foreign := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	for _, target := range []string{"/login", "/apps/app-20261130120000-0001/kill"} {
		if w := ask(h, http.MethodPost, target, foreign); w.Code != http.StatusForbidden {
			t.Errorf("POST %s from another site: status %d, want 403", target, w.Code)
		}
	}
}

func TestErrorsAreAnsweredWithTheirMeaning(t *testing.T) {
	s := newFake()
	h := handlerOf(s)
	for target, code := range map[string]int{
		"/apps/app-none": 404, "/workers/none": 404, "/workers/worker-": 400, "/nothing": 404, "/static/none.js": 404,
		"/logs/app-20261130120000-0001/1/stdin": 400, "/logs/x/y/stdout": 400, "/logs/app-20261130120000-0001/1/stdout?offset=x": 400,
		"/logs/app-20261130120000-0001/1/stdout/raw?limit=9999999999": 400, "/v1/apps/none": 404, "/drivers/none": 404, "/v1/drivers/none": 404, "/v1/nothing": 404,
	} {
		if w := ask(h, http.MethodGet, target); w.Code != code {
			t.Errorf("GET %s: status %d, want %d: %s", target, w.Code, code, w.Body)
		}
	}
	s.err = errors.New("no members")
	h = handlerOf(s)
	if w := ask(h, http.MethodGet, "/"); w.Code != 500 || !strings.Contains(w.Body.String(), "no members") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := ask(h, http.MethodGet, "/healthz"); w.Code != 200 {
		t.Errorf("/healthz: status %d although the process lives", w.Code)
	}
	s.ready = "no leader is known"
	if w := ask(h, http.MethodGet, "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), s.ready) {
		t.Errorf("/readyz: status %d: %s", w.Code, w.Body)
	}
}

func TestWithoutALeaderThePageSaysSo(t *testing.T) {
	s := newFake()
	s.snap.Cluster.Staleness.Leader, s.snap.Cluster.Staleness.LeaderlessFor = "", 4200
	wants(t, get(t, handlerOf(s), "/"), "no leader for 4.2s", "No leader.", "may be out of date")
}
