package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func (w *world) token(name string) (*model.Token, bool) {
	w.t.Helper()
	return w.v().Token(model.TokenHash(hashOf(name)))
}

func TestATokenIsFoundByItsHashUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(createToken("ann", model.RoleSubmitter, 0))
	got, ok := w.token("ann")
	if !ok || got.Name != "ann" || got.Role != model.RoleSubmitter || got.CreatedBy != "root" || got.ExpiresTick != 0 || got.ExpiresWall != 0 {
		t.Fatalf("found %t, %+v", ok, got)
	}
	if _, ok := w.token("eve"); ok {
		t.Error("a hash that was never given is found")
	}
	// The id is made of the hash's beginning: the rest must fit too.
	near := model.TokenHash(hashOf("ann"))
	near[31] ^= 1
	if _, ok := w.v().Token(near); ok {
		t.Error("a hash that only begins alike is found")
	}
	w.refused(createToken("ann", model.RoleOperator, 0), model.RejectTokenExists)
	w.must(revokeToken(hashOf("ann")))
	if _, ok := w.token("ann"); ok {
		t.Error("a revoked token is found")
	}
	w.refused(revokeToken(hashOf("ann")), model.RejectUnknownToken)
	if c := w.v().Audit(0); len(c) != 2 || c[1].Action != "create submitter token for ann" || c[0].Action != "revoke submitter token of ann" || c[0].Object != string(tokenID("ann")) {
		t.Errorf("audit: %+v", c)
	}
}

func TestATokenExpiresByTheClusterClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(createToken("ann", model.RoleViewer, 60_000))
	tok, _ := w.token("ann")
	if tok.Expired(w.tick+59_999) || !tok.Expired(w.tick+60_000) {
		t.Errorf("expires at %d, made at %d for 60000", tok.ExpiresTick, w.tick)
	}
	// A wall clock that runs ahead for years ends nothing.
	ahead := createToken("bob", model.RoleViewer, 60_000)
	ahead.Wall = startWall + 10*365*24*3600*1000
	w.must(ahead)
	if tok, _ := w.token("ann"); tok.Expired(w.v().Tick()) {
		t.Error("a jump of the wall clock has ended a token")
	}
}

func TestTokensThatAreNotValidAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]*replogv1.Command{
		"no name":             createToken("", model.RoleViewer, 0),
		"a name of our own":   createToken("master", model.RoleViewer, 0),
		"a worker's name":     createToken("worker-1", model.RoleViewer, 0),
		"a name with a space": createToken("a b", model.RoleViewer, 0),
		"a long name":         createToken(strings.Repeat("a", model.MaxTokenNameBytes+1), model.RoleViewer, 0),
		"an unknown role":     createToken("ann", "king", 0),
		"a short life":        createToken("ann", model.RoleViewer, 999),
		"a long life":         createToken("ann", model.RoleViewer, model.MaxTokenMilli+1),
		"a short hash":        {Kind: &replogv1.Command_CreateToken{CreateToken: &replogv1.CreateToken{Name: "ann", Role: "viewer", Hash: []byte("x")}}},
	} {
		t.Run(name, func(*testing.T) { w.refused(c, model.RejectInvalid) })
	}
}

func TestTokensAreBoundedAndExpiredOnesMakeRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range model.MaxTokens {
		life := int64(0)
		if i < 2 {
			life = 5000
		}
		w.f.check = i == model.MaxTokens-1
		w.must(createToken(fmt.Sprintf("n%d", i), model.RoleViewer, life))
	}
	w.refused(createToken("one-more", model.RoleViewer, 0), model.RejectTooMany)
	w.after(5000).must(createToken("one-more", model.RoleViewer, 0))
	n := 0
	w.v().Tokens(func(*model.Token) bool { n++; return true })
	if n != model.MaxTokens-1 {
		t.Errorf("%d tokens are kept", n)
	}
}

func TestTheFirstOperatorsTokenIsMadeOnlyWhileThereIsNone(t *testing.T) {
	t.Parallel()
	first := func(name string) *replogv1.Command {
		c := createToken(name, model.RoleOperator, 10_000)
		c.GetCreateToken().First = true
		return c
	}
	w := newWorld(t)
	w.must(createToken("ann", model.RoleSubmitter, 0))
	w.must(first("op-1"))
	w.refused(first("op-2"), model.RejectTokenExists)
	w.after(10_000).must(first("op-2"))
	w.must(revokeToken(hashOf("op-2")))
	w.must(first("op-3"))
}

func TestSE12ASubmitterEndsItsOwnApplicationsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App // of ann
	w.placed(app, "w1", 1)
	w.refused(ownOnly(killApp(app), "bob"), model.RejectNotOwner)
	w.refused(ownOnly(killExecs(app, 0), "bob"), model.RejectNotOwner)
	w.must(ownOnly(killExecs(app, 0), "ann"))
	w.must(ownOnly(killApp(app), "ann"))
	other := w.must(regApp(driverSpec())).App
	c := killApp(other)
	c.Principal = "operator"
	w.must(c)
}

func TestAWorkerIsSpokenForByTheCertificateItCameWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regWorker("w1", 1, 4)) // before the cluster had TLS
	w.must(withCertificate(regWorker("w1", 1, 4), "node-1"))
	if got := w.worker("w1").Certificate; got != "node-1" {
		t.Fatalf("bound to %q", got)
	}
	w.refused(withCertificate(regWorker("w1", 1, 4), "node-2"), model.RejectCertificate)
	w.refused(withCertificate(regWorker("w1", 2, 4), "node-2"), model.RejectCertificate)
	w.must(withCertificate(regWorker("w1", 2, 4), "node-1"))
	w.must(withCertificate(regWorker("w2", 1, 4), "node-1")) // several workers on one machine
	w.must(regWorker("w1", 3, 4))                            // TLS was switched off again
	if got := w.worker("w1").Certificate; got != "node-1" {
		t.Errorf("then bound to %q", got)
	}
}

func TestRefusedCallsDoNotPushOutWhatWasDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(createToken("ann", model.RoleViewer, 0))
	lines := make([]*model.AuditLine, model.MaxAuditLines)
	for i := range lines {
		lines[i] = &model.AuditLine{Action: "KillApp", Outcome: model.AuditRefused, Count: 1}
	}
	for range 2*model.MaxAudit/len(lines) + 1 {
		w.f.check = false
		w.must(recordAudit(lines...))
	}
	w.f.check = true
	w.must(setting(model.SettingDefaultCores, "3"))
	all := w.v().Audit(0)
	refused := 0
	for _, l := range all {
		if l.Refused() {
			refused++
		}
	}
	if refused != model.MaxAuditRefusals || len(all) != refused+2 {
		t.Errorf("%d lines, %d about refused calls", len(all), refused)
	}
	if last := all[len(all)-1]; last.Action != "create viewer token for ann" {
		t.Errorf("the oldest line is %+v", last)
	}
}

func TestAnAuditLineSaysWhoFromWhereAndHowThatIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := regApp(driverSpec())
	c.From, c.Credential = "192.0.2.7", "token-0123456789ab"
	app := w.must(c).App
	want := model.AuditLine{
		Index: w.index, Wall: startWall + w.tick, Principal: "ann", Credential: "token-0123456789ab", From: "192.0.2.7",
		Action: "register app", Object: string(app), Outcome: model.AuditOK,
	}
	if got := w.v().Audit(1)[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.must(targets(app, 0, 3))
	w.must(targets(app, 0, 3))
	if got := w.v().Audit(0); len(got) != 2 || got[0].Action != "set targets" || !got[0].About(app) {
		t.Errorf("audit: %+v", got)
	}
}

func TestTheAuditTrailIsReadOnFromAnEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.do(recordAudit(&model.AuditLine{Action: "a", Outcome: model.AuditRefused}), recordAudit(&model.AuditLine{Action: "b", Outcome: model.AuditRefused}))
	}
	indexes := func(ls []model.AuditLine) (out []uint64) {
		for _, l := range ls {
			out = append(out, l.Index)
		}
		return out
	}
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
	}{
		{0, 100, []uint64{1, 1, 2, 2, 3, 3, 4, 4}},
		{2, 100, []uint64{3, 3, 4, 4}},
		{2, 3, []uint64{3, 3}},
		{2, 1, []uint64{3}},
		{4, 10, nil},
	} {
		if got := indexes(w.v().AuditAfter(c.after, c.limit)); !slices.Equal(got, c.want) {
			t.Errorf("after %d, at most %d: %v, want %v", c.after, c.limit, got, c.want)
		}
	}
}

func TestAuditLinesBeyondTheLimitsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", model.MaxReasonBytes+1)
	for name, l := range map[string]*model.AuditLine{
		"a long principal":   {Action: "a", Outcome: model.AuditOK, Principal: long},
		"a long object":      {Action: "a", Outcome: model.AuditOK, Object: long},
		"a long reason":      {Action: "a", Outcome: model.AuditOK, Reason: long},
		"an unknown outcome": {Action: "a", Outcome: "perhaps"},
		"no action":          {Outcome: model.AuditOK},
		"a negative count":   {Action: "a", Outcome: model.AuditOK, Count: -1},
	} {
		t.Run(name, func(*testing.T) { w.refused(recordAudit(l), model.RejectInvalid) })
	}
	many := make([]*model.AuditLine, model.MaxAuditLines+1)
	for i := range many {
		many[i] = &model.AuditLine{Action: "a", Outcome: model.AuditOK}
	}
	w.refused(recordAudit(many...), model.RejectInvalid)
}
