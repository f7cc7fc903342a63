package rpc

import (
	"errors"
	"testing"

	"github.com/hearthd/hearth/model"
)

// 2^32+5 is 5 in 32 bits: an order for the one must not reach the other.
func TestNumbersThatTheLogWouldCutAreRefused(t *testing.T) {
	t.Parallel()
	const big = 1<<32 + 5
	leader, _, _ := pair(t, &fakeServices{})
	c := ClusterClient(dial(t, leader.Addr().String(), DialConfig{}))
	kill := func(id model.ExecutorID) error {
		return c.KillExecutors(testContext(t), CallInfo{RequestID: "r-1"}, KillExecutorsRequest{App: "app-1", Executors: []model.ExecutorID{0, id}})
	}
	targets := func(totals map[int]int, profiles map[int]model.Profile) error {
		return c.SetTargets(testContext(t), CallInfo{RequestID: "r-2"}, SetTargetsRequest{App: "app-1", Totals: totals, Profiles: profiles})
	}
	for name, err := range map[string]error{
		"an executor":             kill(big),
		"an executor below 0":     kill(-1),
		"a total":                 targets(map[int]int{0: big}, nil),
		"a total below unlimited": targets(map[int]int{0: -2}, nil),
		"the profile of a total":  targets(map[int]int{big: 1}, nil),
		"a profile":               targets(nil, map[int]model.Profile{big: {Cores: 1, MemoryMiB: 1}}),
		"the cores of a profile":  targets(nil, map[int]model.Profile{1: {Cores: big, MemoryMiB: 1}}),
	} {
		if !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	for name, err := range map[string]error{
		"the last executor": kill(maxNumber),
		"no limit":          targets(map[int]int{0: model.TargetUnlimited}, nil),
		"a usual profile":   targets(map[int]int{1: 2}, map[int]model.Profile{1: {Cores: 1, MemoryMiB: 1}}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
