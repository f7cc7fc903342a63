package scheduler

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// The assignment step alone on three workers of 10 cores and 512 MiB, with the
// numbers of Spark's MasterSuite (spark-standalone 3.1, by case number).
func TestAssignCoresLikeSpark(t *testing.T) {
	t.Parallel()
	const none = -1
	for _, tc := range []struct {
		number             int
		memory             int64
		size, most, target int
		spread, pack       []int
	}{
		{1, 128, none, none, none, []int{10, 10, 10}, []int{10, 10, 10}},
		{2, 384, none, none, none, []int{10, 10, 10}, []int{10, 10, 10}},
		{3, 128, none, 8, none, []int{3, 3, 2}, []int{8, 0, 0}},
		{4, 128, none, 16, none, []int{6, 5, 5}, []int{10, 6, 0}},
		{6, 32, 2, none, none, []int{10, 10, 10}, []int{10, 10, 10}},
		{7, 32, 3, none, none, []int{9, 9, 9}, []int{9, 9, 9}},
		{8, 32, 2, 4, none, []int{2, 2, 0}, []int{4, 0, 0}},
		{10, 32, 3, 20, none, []int{6, 6, 6}, []int{9, 9, 0}},
		{11, 32, none, none, 0, []int{0, 0, 0}, []int{0, 0, 0}},
		{12, 32, none, none, 2, []int{10, 10, 0}, []int{10, 10, 0}},
		{13, 32, none, none, 5, []int{10, 10, 10}, []int{10, 10, 10}},
		{14, 32, none, 16, 0, []int{0, 0, 0}, []int{0, 0, 0}},
		{16, 32, none, 16, 5, []int{6, 5, 5}, []int{10, 6, 0}},
		{17, 32, 4, none, 0, []int{0, 0, 0}, []int{0, 0, 0}},
		{19, 32, 4, none, 5, []int{8, 8, 4}, []int{8, 8, 4}},
		{20, 32, 4, 18, 0, []int{0, 0, 0}, []int{0, 0, 0}},
		{22, 32, 4, 18, 5, []int{8, 4, 4}, []int{8, 8, 0}},
	} {
		t.Run(fmt.Sprintf("case %d gives what Spark gives", tc.number), func(t *testing.T) {
			t.Parallel()
			d := Demand{
				Profile:   model.Profile{Cores: max(tc.size, 0), MemoryMiB: tc.memory},
				CoresLeft: orUnlimited(tc.most), Wanted: orUnlimited(tc.target),
			}
			checkAssign(t, []int{10, 10, 10}, 512, d, tc.spread, tc.pack)
		})
	}
}

func TestAssignCores(t *testing.T) {
	t.Parallel()
	unlimited := math.MaxInt
	for _, tc := range []struct {
		name         string
		cores        []int
		memory       int64
		demand       Demand
		spread, pack []int
	}{
		{
			"48 cores at 16 per executor are three whole executors on four workers of 16 (SPARK-8881)",
			[]int{16, 16, 16, 16},
			1 << 20,
			Demand{Profile: model.Profile{Cores: 16, MemoryMiB: 1024}, CoresLeft: 48, Wanted: unlimited},
			[]int{16, 16, 16, 0},
			[]int{16, 16, 16, 0},
		},
		{
			"live executors count against the target",
			[]int{10, 10, 10},
			512,
			Demand{Profile: model.Profile{Cores: 4, MemoryMiB: 32}, CoresLeft: unlimited, Wanted: 5, Live: 3},
			[]int{4, 4, 0},
			[]int{8, 0, 0},
		},
		{
			"more live executors than wanted get nothing",
			[]int{10},
			512,
			Demand{Profile: model.Profile{Cores: 1, MemoryMiB: 32}, CoresLeft: unlimited, Wanted: 2, Live: 3},
			[]int{0},
			[]int{0},
		},
		{
			"memory bounds the executors of a size",
			[]int{10, 10},
			512,
			Demand{Profile: model.Profile{Cores: 1, MemoryMiB: 200}, CoresLeft: unlimited, Wanted: unlimited},
			[]int{2, 2},
			[]int{2, 2},
		},
		{
			"memory is asked once when no size is given",
			[]int{10, 10},
			512,
			Demand{Profile: model.Profile{MemoryMiB: 512}, CoresLeft: unlimited, Wanted: unlimited},
			[]int{10, 10},
			[]int{10, 10},
		},
		{
			"no workers get nothing",
			nil,
			0,
			Demand{CoresLeft: unlimited, Wanted: unlimited},
			[]int{},
			[]int{},
		},
		{
			"a budget below one executor gives nothing",
			[]int{8},
			512,
			Demand{Profile: model.Profile{Cores: 4}, CoresLeft: 3, Wanted: unlimited},
			[]int{0},
			[]int{0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checkAssign(t, tc.cores, tc.memory, tc.demand, tc.spread, tc.pack)
		})
	}
}

func checkAssign(t *testing.T, cores []int, memory int64, d Demand, spread, packed []int) {
	t.Helper()
	var workers []model.Free
	for _, c := range cores {
		workers = append(workers, model.Free{Cores: c, MemoryMiB: memory})
	}
	d.SpreadOut = true
	if diff := cmp.Diff(spread, AssignCores(workers, d)); diff != "" {
		t.Errorf("spread out (-want +got):\n%s", diff)
	}
	d.SpreadOut = false
	if diff := cmp.Diff(packed, AssignCores(workers, d)); diff != "" {
		t.Errorf("consolidated (-want +got):\n%s", diff)
	}
}

func orUnlimited(n int) int {
	if n < 0 {
		return math.MaxInt
	}
	return n
}
