package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/hearthd/hearth/model"
)

// DriversView is /v1/drivers. Total counts all that are listed, Matches those that the filter leaves.
type DriversView struct {
	Version   int                `json:"version"`
	Staleness model.Staleness    `json:"staleness"`
	Total     int                `json:"total"`
	Matches   int                `json:"matches"`
	Drivers   []model.DriverView `json:"drivers"`
}

// DriverDetail is /v1/drivers/{id}.
type DriverDetail struct {
	Version   int              `json:"version"`
	Staleness model.Staleness  `json:"staleness"`
	Driver    model.DriverView `json:"driver"`
}

// drivers lists drivers in cluster mode: those that have not ended newest first, then the ended ones that are kept.
func (h *Handler) drivers(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	h.render(w, http.StatusOK, "drivers", frame{Title: "Drivers", Nav: "drivers", Snap: s, Body: listBody[model.DriverView]{
		Totals: s.totals(), Table: driverPage(s.newestDrivers, readQuery(r)), States: texts(model.DriverStates()),
	}})
	return nil
}

type driverBody struct {
	Driver   model.DriverView
	Why      model.Why
	Fields   []Field
	Apps     table[model.AppView] // what it has registered, ended ones included
	Attempts table[model.ExecutorView]
	States   []string
}

// driver shows one driver with its attempts, the newest first, and its applications.
func (h *Handler) driver(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := h.cfg.Source.Driver(r.PathValue("id"))
	if err != nil {
		return err
	}
	why, err := h.cfg.Source.Why(string(v.ID))
	if err != nil && !errors.Is(err, model.ErrNotFound) { // it may have been forgotten meanwhile
		return err
	}
	var apps []model.AppView
	for i := range s.newest {
		if s.newest[i].Driver == v.ID {
			apps = append(apps, s.newest[i])
		}
	}
	attempts := slices.Clone(v.Attempts)
	slices.Reverse(attempts)
	// The filter is that of the attempts; of the applications the first rows are shown.
	whole := query{Page: 1, Rows: PageRows, path: "/apps"}
	h.render(w, http.StatusOK, "driver", frame{Title: v.Name, Nav: "drivers", Snap: s, Body: driverBody{
		Driver: v, Why: why, Fields: fieldsOf(v), Apps: appPage(apps, whole),
		Attempts: executorPage(attempts, readQuery(r)), States: texts(model.ExecutorStates()),
	}})
	return nil
}

// v1Drivers lists the drivers that have not ended, in order of submission; with ?ended=1 the kept ended ones too, newest
// first.
func (h *Handler) v1Drivers(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	list := s.Drivers
	if r.URL.Query().Get("ended") == "1" {
		list = slices.Concat(list, s.EndedDrivers)
	}
	t := driverPage(list, all(r, len(list)))
	return writeJSON(w, DriversView{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Total: t.Total, Matches: t.Matches, Drivers: t.Rows})
}

func (h *Handler) v1Driver(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := h.cfg.Source.Driver(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, DriverDetail{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Driver: v})
}

func driverPage(list []model.DriverView, q query) table[model.DriverView] {
	type D = model.DriverView
	return page(
		list, q,
		func(d *D) string { return string(d.State) },
		func(d *D) []string { return []string{string(d.ID), d.Name, d.User, string(d.Worker), d.Reason} },
		map[string]func(a, b *D) int{
			"name":      func(a, b *D) int { return cmp.Compare(a.Name, b.Name) },
			"user":      func(a, b *D) int { return cmp.Compare(a.User, b.User) },
			"state":     func(a, b *D) int { return cmp.Compare(a.State, b.State) },
			"attempt":   func(a, b *D) int { return cmp.Compare(a.Attempt, b.Attempt) },
			"worker":    func(a, b *D) int { return cmp.Compare(a.Worker, b.Worker) },
			"cores":     func(a, b *D) int { return cmp.Compare(a.Cores, b.Cores) },
			"submitted": func(a, b *D) int { return cmp.Compare(a.SubmittedAt, b.SubmittedAt) },
		},
	)
}

// ownerPath is the page of what owns a process: an application, or a driver in cluster mode.
func ownerPath(owner model.AppID) string {
	if model.IsDriver(owner) {
		return "/drivers/"
	}
	return "/apps/"
}
