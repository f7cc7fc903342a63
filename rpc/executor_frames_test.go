package rpc

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// Envelopes as the hand-written code sees them: the hot fields, and now and
// then another one.
func drawDown(rnd *rand.Rand) model.ExecutorDown {
	var m, all model.ExecutorDown
	fill(rnd, reflect.ValueOf(&all).Elem())
	m.Tasks, m.Ack, m.Cancel = all.Tasks, all.Ack, all.Cancel
	processes := rnd.IntN(4) == 0
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if processes && i%2 == 0 {
			t.Function, t.Argument = "", nil
			continue
		}
		t.Argv, t.Env, t.Dir, t.Files = nil, nil, "", nil
	}
	if rnd.IntN(4) == 0 {
		m.Welcome, m.Fetch = all.Welcome, all.Fetch
	}
	return m
}

func drawUp(rnd *rand.Rand) model.ExecutorUp {
	var m, all model.ExecutorUp
	fill(rnd, reflect.ValueOf(&all).Elem())
	m.Results = all.Results
	for i := range m.Results {
		if rnd.IntN(2) == 0 {
			m.Results[i].Outcome = []model.TaskOutcome{
				model.TaskDone, model.TaskFailed, model.TaskTimedOut, model.TaskKilled, model.TaskNotRun,
			}[rnd.IntN(5)]
		}
		if rnd.IntN(2) == 0 {
			m.Results[i].ExitCode = -1
		}
	}
	if rnd.IntN(4) == 0 {
		m.Beat, m.Lingering = all.Beat, all.Lingering
	}
	return m
}

func encoded(t *rapid.T, m any) []byte {
	out, err := newCodec().Marshal(m)
	if err != nil {
		t.Fatalf("encode %T: %v", m, err)
	}
	defer out.Free()
	return out.Materialize()
}

func TestMessagesEncodedByHandAreThoseOfTheGeneratedCode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		down, up := drawDown(rnd), drawUp(rnd)
		byHand, generated := encoded(t, &downFrame{msg: down}), encoded(t, executorDownToWire(down))
		var pbDown pb.ExecutorDown
		if err := proto.Unmarshal(byHand, &pbDown); err != nil {
			t.Fatal(err)
		}
		sameDown(t, "encoded by hand", down, executorDownFromWire(&pbDown))
		for name, data := range map[string][]byte{"decoded by hand": generated, "both by hand": byHand} {
			var f downFrame
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &f); err != nil {
				t.Fatal(err)
			}
			sameDown(t, name, down, f.msg)
		}
		byHand, generated = encoded(t, &upFrame{msg: up}), encoded(t, executorUpToWire(up))
		var pbUp pb.ExecutorUp
		if err := proto.Unmarshal(byHand, &pbUp); err != nil {
			t.Fatal(err)
		}
		sameUp(t, "encoded by hand", up, executorUpFromWire(&pbUp))
		for name, data := range map[string][]byte{"decoded by hand": generated, "both by hand": byHand} {
			var f upFrame
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &f); err != nil {
				t.Fatal(err)
			}
			sameUp(t, name, up, f.msg)
		}
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func sameDown(t fataler, how string, want, got model.ExecutorDown) {
	if !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
		t.Fatalf("%s (-want +got):\n%s", how, cmp.Diff(want, got, cmpopts.EquateEmpty()))
	}
}

func sameUp(t fataler, how string, want, got model.ExecutorUp) {
	if !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
		t.Fatalf("%s (-want +got):\n%s", how, cmp.Diff(want, got, cmpopts.EquateEmpty()))
	}
}

func TestATextThatIsNotUTF8IsRepairedInMessagesEncodedByHandToo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f upFrame
		data := encoded(t, &upFrame{msg: model.ExecutorUp{Results: []model.TaskResult{{ID: 1, Error: "a\xffb"}}}})
		if err := f.unmarshal(data); err != nil || f.msg.Results[0].Error != "a\uFFFDb" {
			t.Fatalf("%+v, %v", f.msg, err)
		}
	})
}

// Whatever comes in, the hand-written decoder sees what the generated one sees.
func FuzzExecutorMessagesAreDecodedAlike(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		down, _ := proto.Marshal(executorDownToWire(drawDown(rnd)))
		up, _ := proto.Marshal(executorUpToWire(drawUp(rnd)))
		f.Add(down)
		f.Add(up)
	}
	f.Add([]byte{0x20, 1, 0x28, 2})                 // unpacked lists
	f.Add([]byte{0x1a, 0x04, 0x0a, 0x02, 'i', 'd'}) // a field of another kind
	f.Fuzz(func(t *testing.T, data []byte) {
		var down downFrame
		var pbDown pb.ExecutorDown
		handErr, genErr := down.unmarshal(slices.Clone(data)), proto.Unmarshal(data, &pbDown)
		if genErr == nil {
			if handErr != nil {
				t.Fatalf("refused by hand only: %v", handErr)
			}
			sameDown(t, "decoded by hand", executorDownFromWire(&pbDown), down.msg)
		}
		var up upFrame
		var pbUp pb.ExecutorUp
		handErr, genErr = up.unmarshal(slices.Clone(data)), proto.Unmarshal(data, &pbUp)
		if genErr == nil {
			if handErr != nil {
				t.Fatalf("refused by hand only: %v", handErr)
			}
			sameUp(t, "decoded by hand", executorUpFromWire(&pbUp), up.msg)
		}
	})
}
