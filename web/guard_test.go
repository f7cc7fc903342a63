package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// tokenGate admits one token.
type tokenGate struct{}

func (tokenGate) Admit(_ *http.Request, token string) (string, error) {
	switch token {
	case "right":
		return "ada", nil
	case "":
		return "", fmt.Errorf("%w: this cluster wants a token", model.ErrUnauthenticated)
	case "weak":
		return "", fmt.Errorf("%w: this needs the role viewer", model.ErrRefused)
	}
	return "", fmt.Errorf("%w: the token is not known", model.ErrUnauthenticated)
}

func (tokenGate) Login() bool { return true }

func guarded() *Handler { return handlerOf(newFake(), func(c *Config) { c.Gate = tokenGate{} }) }

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// SE-02: without a token only health is shown.
func TestSE02PagesJSONAndMetricsDemandAToken(t *testing.T) {
	h := guarded()
	h.cfg.Metrics = http.NotFoundHandler()
	program := func(r *http.Request) { r.Header.Set("Accept", "application/json") }
	for _, target := range []string{
		"/", "/workers", "/workers/worker-1111111111", "/apps", "/apps/app-20261130120000-0001", "/json", "/json/workers", "/v1/cluster", "/v1/masters",
		"/v1/workers", "/v1/apps", "/v1/alarms", "/v1/schema", "/events", someLog, someLog + "/raw",
	} {
		w := ask(h, http.MethodGet, target, program)
		if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("GET %s without a token: status %d, %q", target, w.Code, w.Header().Get("WWW-Authenticate"))
		}
		if body := w.Body.String(); strings.Contains(body, "alpha") || strings.Contains(body, "sorting") {
			t.Errorf("GET %s without a token shows the cluster", target)
		}
		if w := ask(h, http.MethodGet, target, program, bearer("wrong")); w.Code != http.StatusUnauthorized {
			t.Errorf("GET %s with a wrong token: status %d", target, w.Code)
		}
		if w := ask(h, http.MethodGet, target, program, bearer("weak")); w.Code != http.StatusForbidden {
			t.Errorf("GET %s with a weak token: status %d", target, w.Code)
		}
		if target == "/events" {
			continue // it would not end
		}
		if w := ask(h, http.MethodGet, target, program, bearer("right")); w.Code != http.StatusOK {
			t.Errorf("GET %s with the token: status %d", target, w.Code)
		}
	}
	for _, target := range []string{"/healthz", "/readyz"} {
		if w := ask(h, http.MethodGet, target, program); w.Code != http.StatusOK {
			t.Errorf("GET %s: status %d; health is open", target, w.Code)
		}
	}
}

func TestABrowserLogsInWithATokenThatScriptsAndOtherSitesDoNotSee(t *testing.T) {
	h := guarded()
	w := ask(h, http.MethodGet, "/apps?q=x")
	if w.Code != http.StatusUnauthorized {
		t.Fatalf("status %d", w.Code)
	}
	wants(t, w.Body.String(), `name="token"`, `value="/apps?q=x"`, `method="post"`)
	send := func(token, next string, change ...func(*http.Request)) (status int, to string, cookies []*http.Cookie) {
		form := url.Values{"token": {token}, "next": {next}}.Encode()
		r := ask(h, http.MethodPost, "/login", append(change, func(r *http.Request) {
			r.Body = readCloser{strings.NewReader(form)}
			r.ContentLength = int64(len(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})...).Result()
		defer func() { _ = r.Body.Close() }()
		return r.StatusCode, r.Header.Get("Location"), r.Cookies()
	}
	for _, token := range []string{"", "wrong", "weak"} {
		if status, _, cookies := send(token, "/"); status != http.StatusForbidden || len(cookies) != 0 {
			t.Errorf("token %q: status %d with %d cookies", token, status, len(cookies))
		}
	}
	status, to, cookies := send("right", "/apps?q=x")
	if status != http.StatusSeeOther || to != "/apps?q=x" || len(cookies) != 1 {
		t.Fatalf("status %d to %q with %d cookies", status, to, len(cookies))
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", c)
	}
	if w := ask(h, http.MethodGet, "/", func(r *http.Request) { r.AddCookie(c) }); w.Code != http.StatusOK {
		t.Errorf("with the cookie: status %d", w.Code)
	}
	for _, next := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "javascript:alert(1)"} {
		if _, to, _ := send("right", next); to != "/" {
			t.Errorf("the login leads to %q for %q", to, next)
		}
	}
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if status, _, cookies := send("right", "/", foreign); status != http.StatusForbidden || len(cookies) != 0 {
		t.Errorf("from another site: status %d", status)
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
