package web

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hearthd/hearth/model"
)

type queueBody struct {
	Table  table[model.Why]
	States []string // codes: the filter is by the first reason
	Never  int      // of all that wait
}

// queue lists everything that waits, and why.
func (h *Handler) queue(w http.ResponseWriter, r *http.Request, s *Snapshot) error {
	list := h.cfg.Source.Waiting().Waiting
	never := 0
	for i := range list {
		if list[i].Never {
			never++
		}
	}
	h.render(w, http.StatusOK, "queue", frame{Title: "Queue", Nav: "queue", Snap: s, Body: queueBody{
		Table: waitingPage(list, readQuery(r)), States: firstCodes(list), Never: never,
	}})
	return nil
}

func (h *Handler) v1Queue(w http.ResponseWriter, _ *http.Request, _ *Snapshot) error {
	return writeJSON(w, h.cfg.Source.Waiting())
}

func (h *Handler) v1Why(w http.ResponseWriter, r *http.Request, _ *Snapshot) error {
	v, err := h.cfg.Source.Why(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, v)
}

// firstCode is what something waits for in the first place.
func firstCode(v *model.Why) string {
	if len(v.Reasons) == 0 {
		return ""
	}
	return string(v.Reasons[0].Code)
}

func firstCodes(list []model.Why) []string {
	var out []string
	for i := range list {
		if c := firstCode(&list[i]); c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return out
}

func waitingPage(list []model.Why, q query) table[model.Why] {
	type W = model.Why
	return page(
		list, q, firstCode,
		func(v *W) []string { return []string{v.ID, v.Name, v.User, v.Queue, v.Text} },
		map[string]func(a, b *W) int{
			"name":  func(a, b *W) int { return cmp.Compare(a.Name, b.Name) },
			"user":  func(a, b *W) int { return cmp.Compare(a.User, b.User) },
			"queue": func(a, b *W) int { return cmp.Compare(a.Queue, b.Queue) },
			"age":   func(a, b *W) int { return cmp.Compare(a.AgeMilli, b.AgeMilli) },
		},
	)
}
