package fsm

import (
	"errors"
	"fmt"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// maxIDBytes bounds the ids of clusters, masters and workers.
const maxIDBytes = 128

// validID checks an id that nodes choose for themselves: it becomes part of
// keys, so it holds no zero byte and no space.
func validID(what, id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("%w: %s id: %d bytes, want 1 to %d", model.ErrInvalid, what, len(id), maxIDBytes)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("%w: %s id %q: must be printable ASCII without spaces", model.ErrInvalid, what, id)
		}
	}
	return nil
}

func (t *tx) initCluster(c *replogv1.InitCluster) Result {
	id := ClusterFromProto(c.GetCluster())
	if t.meta.cluster == id && !id.IsZero() {
		return Result{Repeated: true}
	}
	if !t.meta.cluster.IsZero() {
		return reject(model.RejectInitialised, "this cluster is %s already", t.meta.cluster)
	}
	if err := validID("cluster", id.ID); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	settings := model.DefaultSettings()
	if c.GetSettings() != nil {
		settings = SettingsFromProto(c.GetSettings())
	}
	if err := settings.Validate(); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	t.meta.cluster, t.meta.settings = id, &settings
	t.recountHeld()
	t.changedOnce(ChangeCluster)
	t.changedOnce(ChangeSettings)
	return Result{}
}

func (t *tx) registerMaster(c *replogv1.Command, p *replogv1.RegisterMaster) Result {
	m := MasterFromProto(p.GetMaster())
	if err := validID("master", string(m.ID)); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	for _, s := range []string{m.GRPCAddr, m.RaftAddr, m.SerfAddr, m.HTTPAddr, m.Version} {
		if len(s) > model.MaxNameBytes {
			return reject(model.RejectInvalid, "master %s: an address or the version has more than %d bytes", m.ID, model.MaxNameBytes)
		}
	}
	old, ok := t.masters.get([]byte(m.ID))
	if ok && old.Removed {
		return reject(model.RejectMasterRemoved, "master %s was removed from the cluster: set its data directory aside and start it anew", m.ID)
	}
	if n := len(m.Key); n != 0 && n != model.MasterKeyBytes {
		return reject(model.RejectInvalid, "master %s: its key has %d bytes, want %d", m.ID, n, model.MasterKeyBytes)
	}
	if ok && old.Key != "" && m.Key != old.Key {
		if m.Key != "" {
			return reject(model.RejectInvalid, "master %s: the key by which it proves itself is another one: a copy of its id is not this master", m.ID)
		}
		m.Key = old.Key
	}
	m.Removed = false
	if ok {
		m.ChangeIndex = old.ChangeIndex
		if *m == *old {
			return Result{Repeated: true}
		}
	}
	m.ChangeIndex = t.index
	if ok {
		own, first := t.masters.edit([]byte(m.ID))
		*own = *m
		if first {
			t.changed(Change{Kind: ChangeMaster, Master: m.ID})
		}
	} else {
		t.masters.insert([]byte(m.ID), m)
		t.changed(Change{Kind: ChangeMaster, Master: m.ID})
	}
	t.auditLine(c, "register master", string(m.ID))
	return Result{}
}

func (t *tx) removeMaster(c *replogv1.Command, p *replogv1.RemoveMaster) Result {
	old, ok := t.masters.get([]byte(p.GetId()))
	if !ok {
		return reject(model.RejectUnknownMaster, "master %q is not registered", p.GetId())
	}
	if old.Removed {
		return Result{Repeated: true}
	}
	own, first := t.masters.edit([]byte(p.GetId()))
	own.Removed, own.ChangeIndex = true, t.index
	if first {
		t.changed(Change{Kind: ChangeMaster, Master: own.ID})
	}
	t.auditLine(c, "remove master", p.GetId())
	return Result{}
}

func (t *tx) setSettings(c *replogv1.Command, p *replogv1.SetSettings) Result {
	next := *t.meta.settings
	for _, s := range p.GetSettings() {
		if err := next.Set(s.GetName(), s.GetValue()); errors.Is(err, model.ErrUnknownSetting) {
			return reject(model.RejectUnknownSetting, "%v", err)
		} else if err != nil {
			return reject(model.RejectInvalid, "%v", err)
		}
	}
	if err := next.Validate(); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	if next.Equal(*t.meta.settings) {
		return Result{}
	}
	t.meta.settings = &next
	t.recountHeld()
	t.changedOnce(ChangeSettings)
	for _, s := range p.GetSettings() {
		t.auditLine(c, "set setting", model.TrimReason(s.GetName()+"="+s.GetValue()))
	}
	return Result{}
}
