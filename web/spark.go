package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hearthd/hearth/model"
)

// The structs below have the names of Spark Standalone's /json (JsonProtocol, 3.3 to 4.x), so that what reads a Spark
// master reads this one. Our own views are embedded: where a name means the same in both, Spark's form wins.

type sparkMaster struct {
	model.ClusterView

	URL              string                     `json:"url"`
	Workers          []sparkWorker              `json:"workers"`
	AliveWorkers     int                        `json:"aliveworkers"`
	Cores            int                        `json:"cores"` // of alive workers only, as the next three
	CoresUsed        int                        `json:"coresused"`
	Memory           int64                      `json:"memory"`
	MemoryUsed       int64                      `json:"memoryused"`
	Resources        []map[string]sparkResource `json:"resources"` // one object for each alive worker
	ResourcesUsed    []map[string]sparkResource `json:"resourcesused"`
	ActiveApps       []sparkApp                 `json:"activeapps"`
	CompletedApps    []sparkApp                 `json:"completedapps"`
	ActiveDrivers    []sparkDriver              `json:"activedrivers"`
	CompletedDrivers []sparkDriver              `json:"completeddrivers"`
	Status           string                     `json:"status"`
}

type sparkResource struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
}

type sparkRequirement struct {
	Name   string `json:"name"`
	Amount int    `json:"amount"`
}

type sparkWorker struct {
	model.WorkerView

	Host          string                   `json:"host"`
	Port          int                      `json:"port"`
	WebUIAddress  string                   `json:"webuiaddress"`
	CoresUsed     int                      `json:"coresused"`
	CoresFree     int                      `json:"coresfree"`
	Memory        int64                    `json:"memory"`
	MemoryUsed    int64                    `json:"memoryused"`
	MemoryFree    int64                    `json:"memoryfree"`
	Resources     map[string]sparkResource `json:"resources"`
	ResourcesUsed map[string]sparkResource `json:"resourcesused"`
	ResourcesFree map[string]sparkResource `json:"resourcesfree"`
	State         string                   `json:"state"`
	LastHeartbeat int64                    `json:"lastheartbeat"`
}

type sparkApp struct {
	ID                   model.AppID        `json:"id"`
	StartTime            int64              `json:"starttime"`
	Name                 string             `json:"name"`
	Cores                int                `json:"cores"`
	User                 string             `json:"user"`
	MemoryPerExecutor    int64              `json:"memoryperexecutor"`
	MemoryPerSlave       int64              `json:"memoryperslave"`
	ResourcesPerExecutor []sparkRequirement `json:"resourcesperexecutor"`
	ResourcesPerSlave    []sparkRequirement `json:"resourcesperslave"`
	SubmitDate           string             `json:"submitdate"`
	State                string             `json:"state"`
	Duration             int64              `json:"duration"`
}

// sparkDriver is a driver in cluster mode. Unlike that of an application its starttime is a text.
type sparkDriver struct {
	ID         model.DriverID     `json:"id"`
	StartTime  string             `json:"starttime"` // ms since 1970, of the submission
	State      string             `json:"state"`
	Cores      int                `json:"cores"`
	Memory     int64              `json:"memory"`
	Resources  []sparkRequirement `json:"resources"`
	SubmitDate string             `json:"submitdate"`
	Worker     string             `json:"worker"`    // "None" without one
	MainClass  string             `json:"mainclass"` // the program
}

// sparkJSON answers /json, /json/<field> and /json/clusterutilization.
func (h *Handler) sparkJSON(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	field := r.PathValue("field")
	if field == "clusterutilization" {
		return writeJSON(w, utilization(s))
	}
	view := sparkView(s, h.cfg.Secure)
	if field == "" {
		return writeJSON(w, view)
	}
	data, err := json.Marshal(view)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("pick %q from the answer: %w", trim(field, maxQuery), err)
	}
	if part, ok := whole[field]; ok {
		return writeJSON(w, map[string]json.RawMessage{field: part})
	}
	return writeJSON(w, map[string]string{field: ""})
}

func sparkView(s *Snapshot, secure bool) sparkMaster {
	c := s.Cluster
	v := sparkMaster{
		ClusterView: c, URL: "hearth://" + ownAddr(c), Status: "STANDBY",
		Workers: []sparkWorker{}, Resources: []map[string]sparkResource{}, ResourcesUsed: []map[string]sparkResource{},
		ActiveApps: sparkApps(c.Apps, s.Taken), CompletedApps: sparkApps(s.Ended, s.Taken),
		ActiveDrivers: sparkDrivers(s.Drivers), CompletedDrivers: sparkDrivers(s.EndedDrivers),
	}
	if c.Staleness.Leader == c.Staleness.Master {
		v.Status = "ALIVE"
	}
	for _, x := range c.Workers {
		w := sparkWorkerOf(x, s.Taken, secure)
		v.Workers = append(v.Workers, w)
		if x.State != model.WorkerAlive {
			continue
		}
		v.AliveWorkers++
		v.Cores, v.CoresUsed = v.Cores+x.Cores, v.CoresUsed+x.CoresUsed
		v.Memory, v.MemoryUsed = v.Memory+x.MemoryMiB, v.MemoryUsed+x.MemoryUsedMiB
		v.Resources, v.ResourcesUsed = append(v.Resources, w.Resources), append(v.ResourcesUsed, w.ResourcesUsed)
	}
	return v
}

// ownAddr is the gRPC address of the master that answers.
func ownAddr(c model.ClusterView) string {
	for _, m := range c.Masters {
		if m.ID == c.Staleness.Master {
			return m.GRPCAddr
		}
	}
	return ""
}

// sparkWorkerOf maps the states of design 10. A beat is no part of the state: a worker that is alive was heard just now.
func sparkWorkerOf(x model.WorkerView, now time.Time, secure bool) sparkWorker {
	host, port, err := net.SplitHostPort(x.GRPCAddr)
	if err != nil {
		host = x.GRPCAddr
	}
	w := sparkWorker{
		WorkerView: x, Host: host, WebUIAddress: string(pagesAt(x.HTTPAddr, secure)),
		CoresUsed: x.CoresUsed, CoresFree: x.Cores - x.CoresUsed,
		Memory: x.MemoryMiB, MemoryUsed: x.MemoryUsedMiB, MemoryFree: x.MemoryMiB - x.MemoryUsedMiB,
		Resources: sparkResources(x.Resources, nil), ResourcesUsed: sparkResources(x.ResourcesUsed, nil),
		ResourcesFree: sparkResources(x.Resources, x.ResourcesUsed),
		State:         string(x.State), LastHeartbeat: milli(x.RegisteredWall),
	}
	w.Port, _ = strconv.Atoi(port) // "" and names are 0
	switch x.State {
	case model.WorkerAlive:
		w.LastHeartbeat = now.UnixMilli()
	case model.WorkerUnreachable, model.WorkerRestarting:
		w.State = "UNKNOWN"
	case model.WorkerDraining, model.WorkerDrained:
		w.State, w.LastHeartbeat = "DECOMMISSIONED", now.UnixMilli()
	case model.WorkerLeft:
		w.State = "DEAD"
	case model.WorkerDead:
	}
	return w
}

func sparkResources(r, without map[string][]string) map[string]sparkResource {
	out := make(map[string]sparkResource, len(r))
	for name, addresses := range r {
		used := make(map[string]bool)
		for _, a := range without[name] {
			used[a] = true
		}
		left := []string{}
		for _, a := range addresses {
			if !used[a] {
				left = append(left, a)
			}
		}
		out[name] = sparkResource{name, left}
	}
	return out
}

func sparkApps(apps []model.AppView, now time.Time) []sparkApp {
	out := []sparkApp{}
	for _, a := range apps {
		begun, end := milli(a.SubmittedAt), milli(a.EndedAt)
		if end == 0 {
			end = now.UnixMilli()
		}
		x := sparkApp{
			ID: a.ID, StartTime: begun, Name: a.Name, Cores: a.Cores, User: a.User,
			MemoryPerExecutor: a.MemoryMiB, MemoryPerSlave: a.MemoryMiB,
			ResourcesPerExecutor: []sparkRequirement{}, ResourcesPerSlave: []sparkRequirement{},
			State: string(a.State), Duration: max(0, end-begun),
		}
		x.SubmitDate = sparkDate(begun)
		out = append(out, x)
	}
	return out
}

// sparkDrivers maps what Spark has no name for: a driver that is being ended is RUNNING there until it has ended, and one that
// waits for its next attempt has no worker.
func sparkDrivers(drivers []model.DriverView) []sparkDriver {
	out := []sparkDriver{}
	for _, d := range drivers {
		begun := milli(d.SubmittedAt)
		x := sparkDriver{
			ID: d.ID, StartTime: strconv.FormatInt(begun, 10), State: string(d.State), Cores: d.Cores, Memory: d.MemoryMiB,
			Resources: []sparkRequirement{}, SubmitDate: sparkDate(begun), Worker: "None",
		}
		if d.State == model.DriverKilling {
			x.State = string(model.DriverRunning)
		}
		if d.Worker != "" && !d.State.Queued() {
			x.Worker = string(d.Worker)
		}
		for _, name := range slices.Sorted(maps.Keys(d.Resources)) {
			x.Resources = append(x.Resources, sparkRequirement{name, d.Resources[name]})
		}
		if len(d.Command) > 0 {
			x.MainClass = d.Command[0]
		}
		out = append(out, x)
	}
	return out
}

// sparkDate is Java's Date.toString, in UTC; "" without a time.
func sparkDate(milli int64) string {
	if milli == 0 {
		return ""
	}
	return time.UnixMilli(milli).UTC().Format("Mon Jan 02 15:04:05 UTC 2006")
}

func milli(at string) int64 {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// sparkUtilization is /json/clusterutilization: of alive workers; 100 % of nothing.
type sparkUtilization struct {
	WaitingDrivers    int   `json:"waitingDrivers"`
	Cores             int   `json:"cores"`
	CoresUsed         int   `json:"coresused"`
	CoresUtilization  int   `json:"coresutilization"`
	Memory            int64 `json:"memory"`
	MemoryUsed        int64 `json:"memoryused"`
	MemoryUtilization int   `json:"memoryutilization"`
}

func utilization(s *Snapshot) sparkUtilization {
	v := sparkView(s, false)
	u := sparkUtilization{WaitingDrivers: s.totals().Waiting, Cores: v.Cores, CoresUsed: v.CoresUsed, CoresUtilization: 100, Memory: v.Memory, MemoryUsed: v.MemoryUsed, MemoryUtilization: 100}
	if u.Cores > 0 {
		u.CoresUtilization = 100 * u.CoresUsed / u.Cores
	}
	if u.Memory > 0 {
		u.MemoryUtilization = int(100 * u.MemoryUsed / u.Memory)
	}
	return u
}
