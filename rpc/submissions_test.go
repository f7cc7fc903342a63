package rpc

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestABatchIsForwardedWithAVerdictForEachSubmission(t *testing.T) {
	t.Parallel()
	subs := []Submission{{RequestID: "r-1", Base: 3, Spec: commandSpec}, {RequestID: "r-2", Base: 4, Spec: commandSpec}, {RequestID: "r-3", Base: 5, Spec: commandSpec}}
	var got []Submission
	var info CallInfo
	_, _, standby := pair(t, &fakeServices{registerApps: func(_ context.Context, c CallInfo, s []Submission) (RegisterAppsReply, error) {
		got, info = s, c
		return RegisterAppsReply{LeaderAddr: "leader:1", Verdicts: []SubmissionVerdict{
			{App: "app-7", Token: "t", Index: 9},
			{Err: model.RejectRequestExpired.Err("too old")},
			{Err: model.ErrOutcomeUnknown},
		}}, nil
	}})
	c := ClusterClient(dial(t, standby.Addr().String(), DialConfig{Principal: "ann"}))
	reply, err := c.RegisterApps(testContext(t), CallInfo{}, subs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(subs, got); diff != "" {
		t.Errorf("the batch changed on its way (-sent +got):\n%s", diff)
	}
	if info.Principal != "ann" {
		t.Errorf("the leader saw the caller %q", info.Principal)
	}
	v := reply.Verdicts
	if reply.LeaderAddr != "leader:1" || v[0] != (SubmissionVerdict{App: "app-7", Token: "t", Index: 9}) {
		t.Errorf("got %+v", reply)
	}
	var rejected *model.RejectedError
	if !errors.Is(v[1].Err, model.ErrRequestExpired) || !errors.As(v[1].Err, &rejected) || rejected.Text != "too old" {
		t.Errorf("the refusal came as %v", v[1].Err)
	}
	if !errors.Is(v[2].Err, model.ErrOutcomeUnknown) || errors.Is(v[2].Err, model.ErrRequestExpired) {
		t.Errorf("the unknown outcome came as %v", v[2].Err)
	}
}

func TestAnEmptyOrTooLargeBatchIsRefusedBeforeTheService(t *testing.T) {
	t.Parallel()
	called := false
	leader, _, _ := pair(t, &fakeServices{registerApps: func(context.Context, CallInfo, []Submission) (RegisterAppsReply, error) {
		called = true
		return RegisterAppsReply{}, nil
	}})
	c := ClusterClient(dial(t, leader.Addr().String(), DialConfig{}))
	for _, n := range []int{0, MaxSubmissions + 1} {
		if _, err := c.RegisterApps(testContext(t), CallInfo{}, make([]Submission, n)); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%d submissions: got %v", n, err)
		}
	}
	if called {
		t.Error("the service was called")
	}
}

func TestAReplyWithAnotherNumberOfVerdictsSaysNothing(t *testing.T) {
	t.Parallel()
	leader, _, _ := pair(t, &fakeServices{registerApps: func(context.Context, CallInfo, []Submission) (RegisterAppsReply, error) {
		return RegisterAppsReply{Verdicts: make([]SubmissionVerdict, 1)}, nil
	}})
	c := ClusterClient(dial(t, leader.Addr().String(), DialConfig{}))
	_, err := c.RegisterApps(testContext(t), CallInfo{}, []Submission{{RequestID: "a", Spec: commandSpec}, {RequestID: "b", Spec: commandSpec}})
	if !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}
