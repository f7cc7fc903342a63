package masterd

import (
	"fmt"
	"testing"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// largeState has 5,000 workers and 10,000 applications, every second one with two executors.
func largeState(tb testing.TB) *fsm.FSM {
	tb.Helper()
	f := fsm.New()
	index := uint64(0)
	apply := func(cmds ...*replogv1.Command) []fsm.Result {
		index++
		for i, c := range cmds {
			c.Tick, c.Wall, c.Proposer = 1000, 1_800_000_000_000, "bench"
			if c.RequestId == "" {
				c.RequestId = fmt.Sprintf("%08x-%08x-bench", index, i)
			}
		}
		entry, err := fsm.EncodeBatch(cmds)
		if err != nil {
			tb.Fatal(err)
		}
		out, err := f.Apply(index, entry)
		if err != nil {
			tb.Fatal(err)
		}
		return out.Results
	}
	apply(initClusterCommand(model.ClusterIdentity{ID: "bench", Epoch: 1, EpochID: 7}, model.DefaultSettings()))
	const batch = 100
	for n := 0; n < 5000; n += batch {
		var cmds []*replogv1.Command
		for i := range batch {
			cmds = append(cmds, registerWorkerCommand(model.WorkerHello{
				Worker: model.WorkerID(fmt.Sprintf("worker-%06d", n+i)), Incarnation: 1,
				Offer: model.Offer{Hostname: fmt.Sprintf("node-%d", n+i), GRPCAddr: "10.0.0.1:7073", HTTPAddr: "10.0.0.1:8081", Cores: 16, MemoryMiB: 65536},
			}))
		}
		apply(cmds...)
	}
	for n := 0; n < 10_000; n += batch {
		var cmds []*replogv1.Command
		for i := range batch {
			spec := model.AppSpec{Name: fmt.Sprintf("app %d", n+i), Kind: model.AppKindCommand, Restart: model.RestartAlways, Command: model.Command{Argv: []string{"true"}}, Executors: 2, Profile: model.Profile{Cores: 1, MemoryMiB: 64}}
			cmds = append(cmds, &replogv1.Command{Kind: &replogv1.Command_RegisterApp{RegisterApp: &replogv1.RegisterApp{Spec: fsm.SpecToProto(spec), Token: randomHex(16)}}})
		}
		var plan []model.Placement
		for i, r := range apply(cmds...) {
			if r.Err() != nil {
				tb.Fatal(r.Err())
			}
			if i%2 == 0 {
				for range 2 {
					plan = append(plan, model.Placement{App: r.App, Worker: model.WorkerID(fmt.Sprintf("worker-%06d", (n+i)%5000)), Cores: 1, MemoryMiB: 64, Secret: model.Secret(randomHex(16))})
				}
			}
		}
		apply(placements(plan)...)
	}
	return f
}

// BenchmarkSnapshotOfALargeCluster is what one look costs that is not shared. Nothing in it is locked: the state goes on
// meanwhile.
func BenchmarkSnapshotOfALargeCluster(b *testing.B) {
	f := largeState(b)
	b.ReportAllocs()
	for b.Loop() {
		v := f.View()
		if n := len(workerViews(v)); n != 5000 {
			b.Fatalf("%d workers", n)
		}
		apps := 0
		v.ActiveApps(func(a *model.App) bool {
			_ = appView(v, a)
			apps++
			return true
		})
		if apps != 10_000 {
			b.Fatalf("%d applications", apps)
		}
	}
}
