package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/model"
)

// frame is what every page is made of.
type frame struct {
	Title string
	Nav   string // the entry of the menu that is this page's
	// Snap is what the page shows; nil on pages without a look at the cluster.
	Snap *Snapshot
	// Bare leaves out menu and live updates; Reload loads the page anew every
	// few seconds instead.
	Bare   bool
	Reload bool
	Body   any
}

type errorBody struct {
	Code int
	Text string
}

// render writes a page. It is complete before its first byte leaves.
func (h *Handler) render(w http.ResponseWriter, code int, name string, f frame) {
	var b bytes.Buffer
	if err := h.pages[name].ExecuteTemplate(&b, "layout", f); err != nil {
		h.cfg.Logger.Error("a page could not be rendered", "page", name, "err", err)
		plain(w, http.StatusInternalServerError, "this page could not be rendered; see the master's log")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// loadPages parses layout, parts and pages. Each page is a set of its own.
func loadPages(static staticFiles, secure bool) map[string]*template.Template {
	base := template.New("").Funcs(functions(static, secure))
	base = template.Must(base.ParseFS(templateFS, "templates/layout.html", "templates/parts.html"))
	out := make(map[string]*template.Template)
	for _, name := range []string{"overview", "workers", "worker", "apps", "app", "drivers", "driver", "queue", "log", "error", "login", "self"} {
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFS, "templates/"+name+".html"))
	}
	return out
}

func functions(static staticFiles, secure bool) template.FuncMap {
	return template.FuncMap{
		"asset":     static.url,
		"ago":       ago,
		"lasted":    lasted,
		"percent":   percent,
		"memory":    memory,
		"number":    number,
		"tone":      func(state any) string { return tone(fmt.Sprint(state)) },
		"pages":     func(addr string) template.URL { return pagesAt(addr, secure) },
		"short":     func(id any) string { return short(fmt.Sprint(id)) },
		"logs":      func(e model.ExecutorView, stream string) string { return LogPath(e.App, e.ID, stream) },
		"ownerpath": ownerPath,
		"driverlog": func(d model.DriverView, stream string) string {
			return LogPath(d.ID.Owner(), model.ExecutorID(d.Attempt), stream)
		},
		"target":    target,
		"firstcode": func(v model.Why) string { return firstCode(&v) },
		"waited":    func(ms int64) string { return span(time.Duration(ms) * time.Millisecond) },
		"seconds": func(ms int64) string {
			return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
		},
		"pathseg": url.PathEscape,
		"ended":   func(e model.ExecutorView) string { return ended(e) },
		"dict":    dict,
		"head": func(q query, by, label, class string) map[string]any {
			return map[string]any{"q": q, "by": by, "label": label, "class": class}
		},
	}
}

// ago tells how long before the snapshot a time was; "" without one.
func ago(at string, s *Snapshot) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return ""
	}
	return span(s.Taken.Sub(t)) + " ago"
}

// lasted tells how long something has taken, until the snapshot if it has not ended.
func lasted(from, to string, s *Snapshot) string {
	begun, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return ""
	}
	end, err := time.Parse(time.RFC3339, to)
	if err != nil {
		end = s.Taken
	}
	return span(end.Sub(begun))
}

// span writes a duration with its two largest units.
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// percent is a part of a whole, from 0 to 100.
func percent(part, whole any) int {
	p, w := toInt(part), toInt(whole)
	if w <= 0 {
		return 0
	}
	return int(min(100, max(0, p*100/w)))
}

func toInt(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

// memory writes MiB as people read it.
func memory(v any) string {
	mib := float64(toInt(v))
	switch {
	case mib >= 1<<20:
		return strconv.FormatFloat(mib/(1<<20), 'f', 1, 64) + " TiB"
	case mib >= 1<<10:
		return strings.TrimSuffix(strconv.FormatFloat(mib/(1<<10), 'f', 1, 64), ".0") + " GiB"
	}
	return strconv.FormatFloat(mib, 'f', 0, 64) + " MiB"
}

// number groups digits by thousands.
func number(v any) string {
	s := fmt.Sprint(v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// tone is the colour of a state.
func tone(state string) string {
	switch state {
	case string(model.WorkerAlive), string(model.AppRunning), string(model.MasterLeader), "ready":
		return "good"
	case string(model.AppWaiting), string(model.ExecutorPlaced), string(model.ExecutorLaunching), string(model.WorkerRestarting),
		string(model.DriverSubmitted), string(model.DriverRelaunching):
		return "busy"
	case string(model.WorkerUnreachable), string(model.ExecutorKilling), string(model.ExecutorStuck),
		string(model.WorkerDraining), string(model.WorkerDrained), string(model.ExecutorDecommissioning):
		return "warn"
	case string(model.WorkerDead), string(model.AppFailed), string(model.ExecutorLost), string(model.DriverError):
		return "bad"
	case string(model.AppFinished), string(model.ExecutorExited):
		return "done"
	}
	return "calm"
}

// pagesAt is the address of another master's or a worker's pages.
func pagesAt(addr string, secure bool) template.URL {
	if addr == "" {
		return ""
	}
	u := url.URL{Scheme: "http", Host: addr, Path: "/"}
	if secure {
		u.Scheme = "https"
	}
	return template.URL(u.String()) //nolint:gosec // scheme and host are set here, and the host is escaped
}

// short is an id as tables show it. The ids of workers begin with a date and are told apart by their ends.
func short(id string) string {
	if kind, rest, ok := strings.Cut(id, "-"); ok && kind == "master" && len(rest) > 8 {
		return kind + "-" + rest[:8]
	}
	return id
}

func target(n int) string {
	if n == model.TargetUnlimited {
		return "∞"
	}
	return strconv.Itoa(n)
}

// ended tells how an executor has ended; "" while it has not.
func ended(e model.ExecutorView) string {
	switch {
	case !e.Terminal:
		return ""
	case e.Signal > 0:
		return fmt.Sprintf("signal %d", e.Signal)
	case e.ExitCode >= 0:
		return fmt.Sprintf("exit %d", e.ExitCode)
	}
	return ""
}

// dict makes the argument of a part out of names and values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict wants names and values, not %d things", len(pairs))
	}
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out, nil
}
