package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/hearthd/hearth/model"
)

type overviewBody struct {
	Totals  Totals
	Masters []model.MasterView
	Workers table[model.WorkerView]
	Apps    table[model.AppView] // waiting and running ones
	Ended   table[model.AppView]
	Drivers table[model.DriverView] // ended ones last
}

// overview is the first page: everything at a glance, and the first rows of each table.
func (h *Handler) overview(w http.ResponseWriter, _ *http.Request, s *Snapshot) error {
	all := func(path string) query { return query{Page: 1, Rows: overviewRows, path: path} }
	h.render(w, http.StatusOK, "overview", frame{Title: "Overview", Nav: "overview", Snap: s, Body: overviewBody{
		Totals: s.totals(), Masters: s.Cluster.Masters,
		Workers: workerPage(s.trouble, all("/workers")),
		Apps:    appPage(s.newest[:len(s.Cluster.Apps)], all("/apps")),
		Ended:   appPage(s.Ended, all("/apps")),
		Drivers: driverPage(s.newestDrivers, all("/drivers")),
	}})
	return nil
}

// newestFirst turns the order of registration round.
func newestFirst[T any](list []T) []T {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// troubleFirst puts workers that are neither well nor gone first and gone ones last.
func troubleFirst(workers []model.WorkerView) []model.WorkerView {
	rank := func(w model.WorkerView) int {
		switch {
		case w.State == model.WorkerAlive:
			return 1
		case w.State.Gone():
			return 2
		}
		return 0
	}
	out := slices.Clone(workers)
	slices.SortStableFunc(out, func(a, b model.WorkerView) int { return rank(a) - rank(b) })
	return out
}

type listBody[T any] struct {
	Totals Totals
	Table  table[T]
	States []string
}

// workers lists all workers.
func (h *Handler) workers(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	h.render(w, http.StatusOK, "workers", frame{Title: "Workers", Nav: "workers", Snap: s, Body: listBody[model.WorkerView]{
		Totals: s.totals(), Table: workerPage(s.Cluster.Workers, readQuery(r)), States: texts(model.WorkerStates()),
	}})
	return nil
}

type workerBody struct {
	Worker    model.WorkerView
	Fields    []Field
	Executors table[model.ExecutorView]
}

// worker shows one worker with the executors on it.
func (h *Handler) worker(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := s.worker(r.PathValue("id"))
	if err != nil {
		return err
	}
	h.render(w, http.StatusOK, "worker", frame{Title: v.Hostname, Nav: "workers", Snap: s, Body: workerBody{
		Worker: v, Fields: fieldsOf(v), Executors: executorPage(h.cfg.Source.OnWorker(v.ID), readQuery(r)),
	}})
	return nil
}

// apps lists applications: active ones newest first, then the ended ones that are kept.
func (h *Handler) apps(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	h.render(w, http.StatusOK, "apps", frame{Title: "Applications", Nav: "apps", Snap: s, Body: listBody[model.AppView]{
		Totals: s.totals(), Table: appPage(s.newest, readQuery(r)), States: texts(model.AppStates()),
	}})
	return nil
}

type appBody struct {
	App       model.AppView
	Why       model.Why
	Fields    []Field
	Executors table[model.ExecutorView]
	States    []string
}

// app shows one application with its executors, the newest first.
func (h *Handler) app(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := h.cfg.Source.App(r.PathValue("id"))
	if err != nil {
		return err
	}
	why, err := h.cfg.Source.Why(string(v.ID))
	if err != nil && !errors.Is(err, model.ErrNotFound) { // it may have been forgotten meanwhile
		return err
	}
	list := slices.Clone(v.Executors)
	slices.Reverse(list)
	h.render(w, http.StatusOK, "app", frame{Title: v.Name, Nav: "apps", Snap: s, Body: appBody{
		App: v, Why: why, Fields: fieldsOf(v), Executors: executorPage(list, readQuery(r)), States: texts(model.ExecutorStates()),
	}})
	return nil
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
