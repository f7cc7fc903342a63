package fsm

import (
	"fmt"
	"maps"
	"strings"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

const (
	// maxTokenBytes bounds tokens and secrets that proposers choose.
	maxTokenBytes = 128
	// maxProfiles bounds the executor profiles of one application.
	maxProfiles = 256
	// exitKilled and exitTimedOut are the codes of design 9.
	exitKilled   = 130
	exitTimedOut = 124
)

func (t *tx) registerApp(c *replogv1.Command, p *replogv1.RegisterApp) Result {
	spec := SpecFromProto(p.GetSpec())
	if err := spec.Validate(); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	if n := len(p.GetToken()); n == 0 || n > maxTokenBytes {
		return reject(model.RejectInvalid, "token: %d bytes, want 1 to %d", n, maxTokenBytes)
	}
	if q := spec.QueueName(); !t.meta.settings.HasQueue(q) {
		return reject(model.RejectInvalid, "queue %q is not one of the cluster's queues (%s): leave it out for %s, or configure it with `hearth settings set %s=...`",
			q, strings.Join(t.meta.settings.QueueNames(), ", "), model.QueueDefault, model.SettingQueues)
	}
	if ref, is := callingAttempt(c); is && spec.Driver == "" {
		spec.Driver, spec.Attempt = model.DriverID(ref.App), int(ref.Executor)
	}
	if res, ok := t.driverMayRegister(c, spec); !ok {
		return res
	}
	a := &model.App{
		ID: model.AppIDFor(t.wall, t.meta.nextApp), Number: t.meta.nextApp,
		RequestID: c.GetRequestId(), Principal: c.GetPrincipal(), Token: model.Secret(p.GetToken()),
		Spec: spec, State: model.AppWaiting,
		Profiles:      map[int]model.Profile{model.ProfileDefault: spec.Profile},
		Targets:       map[int]int{model.ProfileDefault: spec.Executors},
		Live:          map[int]int{},
		FinishedCount: map[model.Cause]int{},
		SubmittedWall: t.wall, SubmittedTick: t.tick, ChangeIndex: t.index,
	}
	t.meta.nextApp++
	t.addApp(a)
	t.auditLine(c, "register app", string(a.ID))
	return Result{App: a.ID, Token: a.Token}
}

func (t *tx) finishApp(c *replogv1.Command, p *replogv1.FinishApp) Result {
	state := model.AppState(p.GetState())
	if state != model.AppFinished && state != model.AppFailed {
		return reject(model.RejectInvalid, "an application finishes as %s or %s, not %q", model.AppFinished, model.AppFailed, p.GetState())
	}
	a, ok := t.findApp(model.AppID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	}
	verdict := p.GetToken() == "" && c.GetRequestId() == "" && c.GetPrincipal() == principalMaster
	if !verdict && !a.Token.Is(model.Secret(p.GetToken())) {
		return reject(model.RejectBadToken, "application %s: the token is not the one it was registered with", a.ID)
	}
	if res, over := alreadyEnded(a, state); over {
		return res
	}
	t.endApp(a, state, int(p.GetExitCode()), p.GetReason())
	t.auditLine(c, "finish app", string(a.ID))
	return Result{App: a.ID}
}

func (t *tx) killApp(c *replogv1.Command, p *replogv1.KillApp) Result {
	a, ok := t.findApp(model.AppID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	}
	if res, ok := mayEnd(c, a); !ok {
		return res
	}
	if res, over := alreadyEnded(a, model.AppKilled); over {
		return res
	}
	reason := p.GetReason()
	if reason == "" {
		reason = "killed"
	}
	t.endApp(a, model.AppKilled, exitKilled, reason)
	t.auditLine(c, "kill app", string(a.ID))
	return Result{App: a.ID}
}

// noteApp writes down why the leader leaves an application alone. It changes
// nothing else.
func (t *tx) noteApp(c *replogv1.Command, p *replogv1.NoteApp) Result {
	a, ok := t.findApp(model.AppID(p.GetApp()))
	switch {
	case !ok:
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	case a.State.Terminal():
		return reject(model.RejectAppEnded, "application %s is %s already: %s", a.ID, a.State, a.Reason)
	case a.Reason == model.TrimReason(p.GetReason()):
		return Result{App: a.ID, Repeated: true}
	}
	t.editApp(a.Number).Reason = model.TrimReason(p.GetReason())
	t.auditLine(c, "note app", string(a.ID))
	return Result{App: a.ID}
}

// alreadyEnded answers a call to end an application that has ended: the same
// end again is accepted, another one is refused.
func alreadyEnded(a *model.App, state model.AppState) (Result, bool) {
	switch {
	case !a.State.Terminal():
		return Result{}, false
	case a.State == state:
		return Result{App: a.ID, Repeated: true}, true
	}
	return reject(model.RejectAppEnded, "application %s is %s already: %s", a.ID, a.State, a.Reason), true
}

func (t *tx) setTargets(c *replogv1.Command, p *replogv1.SetTargets) Result {
	a, ok := t.findApp(model.AppID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownApp, "application %q is not known", p.GetApp())
	}
	if !a.Token.Is(model.Secret(p.GetToken())) {
		return reject(model.RejectBadToken, "application %s: the token is not the one it was registered with", a.ID)
	}
	if a.State.Terminal() {
		return reject(model.RejectAppEnded, "application %s is %s already: %s", a.ID, a.State, a.Reason)
	}
	added, err := newProfiles(a, p.GetProfiles())
	if err != nil {
		return reject(model.RejectInvalid, "application %s: %v", a.ID, err)
	}
	for _, n := range p.GetTotals() {
		if err := checkTarget(a, added, int(n.GetId()), int(n.GetCount())); err != nil {
			return reject(model.RejectInvalid, "application %s: %v", a.ID, err)
		}
	}
	app := t.editApp(a.Number)
	app.Profiles, app.Targets = maps.Clone(app.Profiles), maps.Clone(app.Targets)
	maps.Copy(app.Profiles, added)
	changed := len(added) > 0
	for _, n := range p.GetTotals() {
		changed = changed || app.Targets[int(n.GetId())] != int(n.GetCount())
		app.Targets[int(n.GetId())] = int(n.GetCount())
	}
	if changed {
		t.auditLine(c, "set targets", string(app.ID))
	}
	return Result{App: app.ID}
}

// newProfiles checks profiles to be added. One that is known with the same
// content is passed over; a profile never changes.
func newProfiles(a *model.App, list []*replogv1.NumberedProfile) (map[int]model.Profile, error) {
	added := make(map[int]model.Profile, len(list))
	for _, np := range list {
		id, prof := int(np.GetId()), ProfileFromProto(np.GetProfile())
		if id < 0 {
			return nil, fmt.Errorf("%w: profile %d: numbers count from 0", model.ErrInvalid, id)
		}
		if err := prof.Validate(); err != nil {
			return nil, fmt.Errorf("profile %d: %w", id, err)
		}
		old, known := a.Profiles[id]
		if !known {
			old, known = added[id]
		}
		if known && !sameProfile(old, prof) {
			return nil, fmt.Errorf("%w: profile %d exists with another size", model.ErrInvalid, id)
		}
		if !known {
			added[id] = prof
		}
	}
	if len(a.Profiles)+len(added) > maxProfiles {
		return nil, fmt.Errorf("%w: more than %d profiles", model.ErrInvalid, maxProfiles)
	}
	return added, nil
}

func sameProfile(a, b model.Profile) bool {
	if a.Cores != b.Cores || a.MemoryMiB != b.MemoryMiB || len(a.Resources) != len(b.Resources) {
		return false
	}
	for name, n := range a.Resources {
		if b.Resources[name] != n {
			return false
		}
	}
	return true
}

func checkTarget(a *model.App, added map[int]model.Profile, id, count int) error {
	_, known := a.Profiles[id]
	if _, fresh := added[id]; !known && !fresh {
		return fmt.Errorf("%w: profile %d is not known", model.ErrInvalid, id)
	}
	if count == model.TargetUnlimited && a.Spec.Kind == model.AppKindDriver {
		return nil
	}
	if count < 0 || count > model.MaxExecutors {
		return fmt.Errorf("%w: target %d of profile %d: must be between 0 and %d", model.ErrInvalid, count, id, model.MaxExecutors)
	}
	return nil
}

func (t *tx) settleApps(p *replogv1.SettleApps) Result {
	for _, id := range p.GetApps() {
		if a, ok := t.findApp(model.AppID(id)); ok && t.due(a) {
			t.settle(a)
		}
	}
	return Result{}
}

// overtime reports whether an active application has used up its run time,
// which counts from its registration.
func overtime(a *model.App, tick int64) bool {
	return a.Spec.MaxRuntimeMilli > 0 && tick-a.SubmittedTick > a.Spec.MaxRuntimeMilli
}

// due reports whether settling the application would change it.
func (t *tx) due(a *model.App) bool {
	return appDue(a, t.tick, t.stableSince(a))
}

func appDue(a *model.App, tick, stableSince int64) bool {
	if a.State.Terminal() {
		return false
	}
	if overtime(a, tick) {
		return true
	}
	for _, x := range a.Excluded {
		if x.UntilTick <= tick {
			return true
		}
	}
	for _, f := range a.Failures {
		if forgiven(f, tick, stableSince) {
			return true
		}
	}
	return false
}

func (t *tx) settle(a *model.App) {
	if overtime(a, t.tick) {
		t.endApp(a, model.AppFailed, exitTimedOut, fmt.Sprintf("ran longer than %s", model.FormatMilli(a.Spec.MaxRuntimeMilli)))
		return
	}
	t.refresh(t.editApp(a.Number))
}
