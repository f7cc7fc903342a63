package web

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// query is what a request asks of a table: ?q=, ?state=, ?sort=, ?page= and ?rows=. What it does not understand it ignores.
type query struct {
	Text  string // lower case
	State string // upper case
	Sort  string // a column; with "-" in front, downwards
	Page  int    // from 1
	Rows  int

	path   string
	values url.Values
}

func readQuery(r *http.Request) query {
	v := r.URL.Query()
	q := query{
		Text: strings.ToLower(trim(v.Get("q"), maxQuery)), State: strings.ToUpper(trim(v.Get("state"), maxQuery)), Sort: trim(v.Get("sort"), maxQuery),
		Page: 1, Rows: PageRows, path: r.URL.Path, values: url.Values{},
	}
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 1 {
		q.Page = n
	}
	if n, err := strconv.Atoi(v.Get("rows")); err == nil && n > 0 {
		q.Rows = min(n, MaxPageRows)
	}
	for _, name := range []string{"q", "state", "sort", "rows"} {
		if text := trim(v.Get(name), maxQuery); text != "" {
			q.values.Set(name, text)
		}
	}
	return q
}

func trim(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// with is a link to the same table with one value changed; "" removes it.
func (q query) with(name, value string) string {
	v := url.Values{}
	maps.Copy(v, q.values)
	if value == "" {
		v.Del(name)
	} else {
		v.Set(name, value)
	}
	if len(v) == 0 {
		return q.path
	}
	return q.path + "?" + v.Encode()
}

// By is the link of a column's head, which sorts by it, and turns the order round when it is the one already.
func (q query) By(column string) string {
	if q.Sort == column {
		return q.with("sort", "-"+column)
	}
	return q.with("sort", column)
}

// Arrow tells how a column is sorted, for assistive technology too; "" = not by this one.
func (q query) Arrow(column string) string {
	switch q.Sort {
	case column:
		return "ascending"
	case "-" + column:
		return "descending"
	}
	return ""
}

// table is one page of a list.
type table[T any] struct {
	Rows    []T
	Total   int // in the list
	Matches int // what the filter leaves
	First   int // the number of the first row, from 1; 0 without rows
	Last    int
	Prev    string // links, "" = there is none
	Next    string
	Query   query
}

// page filters, sorts and cuts a list. It changes none of it.
func page[T any](list []T, q query, state func(*T) string, texts func(*T) []string, columns map[string]func(a, b *T) int) table[T] {
	matches := make([]*T, 0, len(list))
	for i := range list {
		if q.matches(state(&list[i]), func() []string { return texts(&list[i]) }) {
			matches = append(matches, &list[i])
		}
	}
	if order, ok := columns[strings.TrimPrefix(q.Sort, "-")]; ok {
		down := strings.HasPrefix(q.Sort, "-")
		slices.SortStableFunc(matches, func(a, b *T) int {
			if down {
				a, b = b, a
			}
			return order(a, b)
		})
	}
	t := table[T]{Total: len(list), Matches: len(matches), Query: q}
	pages := max(1, (len(matches)+q.Rows-1)/q.Rows)
	at := min(q.Page, pages)
	from := (at - 1) * q.Rows
	to := min(from+q.Rows, len(matches))
	t.Rows = make([]T, 0, to-from)
	for _, m := range matches[from:to] {
		t.Rows = append(t.Rows, *m)
	}
	if to > from {
		t.First, t.Last = from+1, to
	}
	if at > 1 {
		t.Prev = q.with("page", strconv.Itoa(at-1))
	}
	if at < pages {
		t.Next = q.with("page", strconv.Itoa(at+1))
	}
	return t
}

// matches applies the filter to one row.
func (q query) matches(state string, texts func() []string) bool {
	if q.State != "" && q.State != state {
		return false
	}
	if q.Text == "" {
		return true
	}
	return slices.ContainsFunc(texts(), func(s string) bool { return strings.Contains(strings.ToLower(s), q.Text) })
}

func workerPage(list []model.WorkerView, q query) table[model.WorkerView] {
	type W = model.WorkerView
	return page(
		list, q,
		func(w *W) string { return string(w.State) },
		func(w *W) []string {
			return []string{string(w.ID), w.Hostname, w.GRPCAddr, w.Reason, fieldText(w.Labels)}
		},
		map[string]func(a, b *W) int{
			"host":      func(a, b *W) int { return cmp.Compare(a.Hostname, b.Hostname) },
			"state":     func(a, b *W) int { return cmp.Compare(a.State, b.State) },
			"cores":     func(a, b *W) int { return cmp.Compare(a.CoresUsed, b.CoresUsed) },
			"memory":    func(a, b *W) int { return cmp.Compare(a.MemoryUsedMiB, b.MemoryUsedMiB) },
			"executors": func(a, b *W) int { return cmp.Compare(a.Executors, b.Executors) },
		},
	)
}

func appPage(list []model.AppView, q query) table[model.AppView] {
	type A = model.AppView
	return page(
		list, q,
		func(a *A) string { return string(a.State) },
		func(a *A) []string { return []string{string(a.ID), a.Name, a.User, a.Reason, string(a.Driver)} },
		map[string]func(a, b *A) int{
			"name":      func(a, b *A) int { return cmp.Compare(a.Name, b.Name) },
			"user":      func(a, b *A) int { return cmp.Compare(a.User, b.User) },
			"state":     func(a, b *A) int { return cmp.Compare(a.State, b.State) },
			"cores":     func(a, b *A) int { return cmp.Compare(a.Cores, b.Cores) },
			"executors": func(a, b *A) int { return cmp.Compare(a.Running, b.Running) },
			"submitted": func(a, b *A) int { return cmp.Compare(a.SubmittedAt, b.SubmittedAt) },
		},
	)
}

func executorPage(list []model.ExecutorView, q query) table[model.ExecutorView] {
	type E = model.ExecutorView
	return page(
		list, q,
		func(e *E) string { return string(e.State) },
		func(e *E) []string { return []string{string(e.App), string(e.Worker), e.Reason, string(e.Cause)} },
		map[string]func(a, b *E) int{
			"executor": func(a, b *E) int { return cmp.Compare(a.ID, b.ID) },
			"state":    func(a, b *E) int { return cmp.Compare(a.State, b.State) },
			"worker":   func(a, b *E) int { return cmp.Compare(a.Worker, b.Worker) },
			"placed":   func(a, b *E) int { return cmp.Compare(a.PlacedAt, b.PlacedAt) },
		},
	)
}
