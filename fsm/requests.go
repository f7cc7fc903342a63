package fsm

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
)

// recall answers a command that was applied before, or whose request id is too
// old to tell. done is false for one that must be applied now.
func (t *tx) recall(c *replogv1.Command) (res Result, done bool) {
	id := c.GetRequestId()
	if id == "" {
		return Result{}, false
	}
	if r, ok := t.requests.get([]byte(id)); ok {
		return r.answer(), true
	}
	if n, ok := t.byReq.get([]byte(id)); ok {
		if a, found := t.apps.get(numKey(n)); found {
			return Result{Index: a.ChangeIndex, App: a.ID, Token: a.Token, Repeated: true}, true
		}
	}
	if n, ok := t.driverReq.get([]byte(id)); ok {
		if d, found := t.drivers.get(numKey(n)); found {
			return Result{Index: d.ChangeIndex, Driver: d.ID, Repeated: true}, true
		}
	}
	switch {
	case c.GetBase() < t.meta.rememberedSince:
		res = reject(model.RejectRequestExpired, "request %s was made at index %d; results before %d are forgotten, so it may have been applied",
			id, c.GetBase(), t.meta.rememberedSince)
	case c.GetBase() >= t.index:
		res = reject(model.RejectRequestExpired, "request %s was made at index %d, which this cluster has not reached", id, c.GetBase())
	default:
		return Result{}, false
	}
	res.Index = t.index
	return res, true
}

// remember keeps the result of an accepted request and forgets the oldest one
// beyond the limit.
func (t *tx) remember(id string, res Result) {
	if id == "" {
		return
	}
	t.seq++
	r := &remembered{id: id, index: t.index, seq: t.seq, result: encodeResult(res)}
	t.requests.insert([]byte(id), r)
	t.reqOrder.put(numKey(r.seq), id)
	for t.requests.n > model.MaxRemembered {
		key, oldest, ok := t.reqOrder.first()
		if !ok {
			return
		}
		old, found := t.requests.get([]byte(oldest))
		if found {
			t.meta.rememberedSince = max(t.meta.rememberedSince, old.index)
			t.requests.remove([]byte(oldest))
		}
		t.reqOrder.remove(key)
	}
}

// encodeResult keeps what a repeat needs within MaxRememberedBytes: first the
// text goes, then the verdicts on placements.
func encodeResult(res Result) []byte {
	p := &replogv1.Result{Text: res.Text, Index: res.Index, App: string(res.App), Token: res.Token.Reveal(), Driver: string(res.Driver)}
	for _, v := range res.Placements {
		p.Placements = append(p.Placements, &replogv1.PlacementVerdict{Rejection: string(v.Rejection), Text: v.Text, Executor: int32(v.Executor)})
	}
	if proto.Size(p) > model.MaxRememberedBytes {
		p.Text = ""
	}
	if proto.Size(p) > model.MaxRememberedBytes {
		p.Placements = nil
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		// All text came out of decoded messages, so it is valid UTF-8.
		return nil
	}
	return out
}

// answer is the first answer again.
func (r *remembered) answer() Result {
	var p replogv1.Result
	if err := proto.Unmarshal(r.result, &p); err != nil {
		// Restore has checked every result; what remains is that it was
		// applied at this index.
		return Result{Index: r.index, Repeated: true}
	}
	res := Result{Text: p.GetText(), Index: p.GetIndex(), App: model.AppID(p.GetApp()), Token: model.Secret(p.GetToken()), Driver: model.DriverID(p.GetDriver()), Repeated: true}
	for _, v := range p.GetPlacements() {
		res.Placements = append(res.Placements, PlacementVerdict{
			Rejection: model.Rejection(v.GetRejection()), Text: v.GetText(), Executor: model.ExecutorID(v.GetExecutor()),
		})
	}
	return res
}
