package web

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/hearthd/hearth/model"
)

// The answers of /v1 below are those of the command line's -o json.

// MastersView is /v1/masters.
type MastersView struct {
	Version   int                `json:"version"`
	Staleness model.Staleness    `json:"staleness"`
	Masters   []model.MasterView `json:"masters"`
}

// WorkersView is /v1/workers. Total counts all workers, Matches those that the filter leaves.
type WorkersView struct {
	Version   int                `json:"version"`
	Staleness model.Staleness    `json:"staleness"`
	Total     int                `json:"total"`
	Matches   int                `json:"matches"`
	Workers   []model.WorkerView `json:"workers"`
}

// WorkerDetail is /v1/workers/{id}.
type WorkerDetail struct {
	Version   int                  `json:"version"`
	Staleness model.Staleness      `json:"staleness"`
	Worker    model.WorkerView     `json:"worker"`
	Executors []model.ExecutorView `json:"executors"`
}

// AppsView is /v1/apps.
type AppsView struct {
	Version   int             `json:"version"`
	Staleness model.Staleness `json:"staleness"`
	Total     int             `json:"total"`
	Matches   int             `json:"matches"`
	Apps      []model.AppView `json:"apps"`
}

// AppDetail is /v1/apps/{id}.
type AppDetail struct {
	Version   int             `json:"version"`
	Staleness model.Staleness `json:"staleness"`
	App       model.AppView   `json:"app"`
}

// AlarmsView is /v1/alarms: what the answering master has found wrong.
type AlarmsView struct {
	Version   int               `json:"version"`
	Staleness model.Staleness   `json:"staleness"`
	Alarms    []model.AlarmView `json:"alarms"`
}

// writeJSON answers a view. HTML in texts is escaped, in case somebody opens it as a page after all.
func writeJSON(w http.ResponseWriter, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(append(data, '\n')) // the client may be gone
	return nil
}

func (h *Handler) v1Cluster(w http.ResponseWriter, _ *http.Request, s *Snapshot) error {
	return writeJSON(w, s.Cluster)
}

func (h *Handler) v1Masters(w http.ResponseWriter, _ *http.Request, s *Snapshot) error {
	return writeJSON(w, MastersView{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Masters: s.Cluster.Masters})
}

func (h *Handler) v1Alarms(w http.ResponseWriter, _ *http.Request, s *Snapshot) error {
	return writeJSON(w, AlarmsView{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Alarms: s.Cluster.Alarms})
}

// all makes a list whole unless rows or a page are asked for: programs do not page by accident.
func all(r *http.Request, n int) query {
	q := readQuery(r)
	if v := r.URL.Query(); !v.Has("page") && !v.Has("rows") {
		q.Rows = max(1, n)
	}
	return q
}

func (h *Handler) v1Workers(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	t := workerPage(s.Cluster.Workers, all(r, len(s.Cluster.Workers)))
	return writeJSON(w, WorkersView{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Total: t.Total, Matches: t.Matches, Workers: t.Rows})
}

func (h *Handler) v1Worker(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := s.worker(r.PathValue("id"))
	if err != nil {
		return err
	}
	executors := h.cfg.Source.OnWorker(v.ID)
	if executors == nil {
		executors = []model.ExecutorView{}
	}
	return writeJSON(w, WorkerDetail{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Worker: v, Executors: executors})
}

// v1Apps lists the active applications; with ?ended=1 the kept ended ones too, newest first.
func (h *Handler) v1Apps(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	list := s.Cluster.Apps
	if r.URL.Query().Get("ended") == "1" {
		list = append(append([]model.AppView{}, list...), s.Ended...)
	}
	t := appPage(list, all(r, len(list)))
	return writeJSON(w, AppsView{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, Total: t.Total, Matches: t.Matches, Apps: t.Rows})
}

func (h *Handler) v1App(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	v, err := h.cfg.Source.App(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, AppDetail{Version: model.ViewVersion, Staleness: s.Cluster.Staleness, App: v})
}
