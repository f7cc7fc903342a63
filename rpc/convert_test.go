package rpc

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

// fill sets every field below v to a random value that is not the zero value,
// so that a field which a conversion forgets makes a difference.
func fill(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d-ü", rnd.Uint32()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		n := 1 + rnd.Int64N(1<<40)
		if rnd.IntN(2) == 0 {
			n = -n
		}
		v.SetInt(n)
	case reflect.Uint8:
		v.SetUint(1 + rnd.Uint64N(255))
	case reflect.Uint32:
		v.SetUint(1 + rnd.Uint64N(1<<31))
	case reflect.Uint64:
		v.SetUint(1 + rnd.Uint64N(1<<63))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(rnd, v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(rnd, field)
		}
	case reflect.Slice:
		n := 1 + rnd.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rnd, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rnd, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + rnd.IntN(3) {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(rnd, k)
			fill(rnd, e)
			v.SetMapIndex(k, e)
		}
	default:
		panic("fill: no rule for " + v.Type().String())
	}
}

// overWire encodes and decodes as a connection does.
func overWire[W proto.Message](t *rapid.T, w W) W {
	c := newCodec()
	data, err := c.Marshal(w)
	if err != nil {
		t.Fatalf("encode %T: %v", w, err)
	}
	out, ok := w.ProtoReflect().New().Interface().(W)
	if !ok {
		t.Fatalf("no new %T", w)
	}
	if err := c.Unmarshal(data, out); err != nil {
		t.Fatalf("decode %T: %v", w, err)
	}
	return out
}

// survives checks that a whole value comes back as it was.
func survives[M any, W proto.Message](toWire func(M) W, fromWire func(W) M) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			var want M
			fill(rnd, reflect.ValueOf(&want).Elem())
			if got := fromWire(overWire(t, toWire(want))); !cmp.Equal(want, got) {
				t.Fatalf("changed on the wire (-sent +got):\n%s", cmp.Diff(want, got))
			}
			var zero M
			if got := fromWire(overWire(t, toWire(zero))); !cmp.Equal(zero, got, cmpopts.EquateEmpty()) {
				t.Fatalf("the zero value changed on the wire (-sent +got):\n%s", cmp.Diff(zero, got))
			}
		})
	}
}

// eachKindSurvives does so for an envelope, one kind at a time.
func eachKindSurvives[M any, W proto.Message](toWire func(M) W, fromWire func(W) (M, bool)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			var probe M
			for i := range reflect.ValueOf(probe).NumField() {
				var want M
				fill(rnd, reflect.ValueOf(&want).Elem().Field(i))
				got, known := fromWire(overWire(t, toWire(want)))
				if !known || !cmp.Equal(want, got) {
					t.Fatalf("changed on the wire (known %t, -sent +got):\n%s", known, cmp.Diff(want, got))
				}
			}
			if _, known := fromWire(overWire(t, toWire(probe))); known {
				t.Fatalf("an empty %T came back as a known kind", probe)
			}
		})
	}
}

func ptr[M, W any](f func(*M) W) func(M) W { return func(m M) W { return f(&m) } }

func deref[W, M any](f func(W) *M) func(W) M { return func(w W) M { return *f(w) } }

func TestEveryFieldSurvivesTheWire(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"application spec":       survives(specToWire, specFromWire),
		"driver spec":            survives(driverSpecToWire, driverSpecFromWire),
		"driver view":            survives(driverViewToWire, driverViewFromWire),
		"submit driver reply":    survives(submitDriverReplyToWire, submitDriverReplyFromWire),
		"cluster identity":       survives(identityToWire, identityFromWire),
		"log request":            survives(logRequestToWire, logRequestFromWire),
		"log chunk":              survives(logChunkToWire, logChunkFromWire),
		"register reply":         survives(registerReplyToWire, registerReplyFromWire),
		"finish request":         survives(finishToWire, finishFromWire),
		"kill executors request": survives(killExecutorsToWire, killExecutorsFromWire),
		"set targets request":    survives(setTargetsToWire, setTargetsFromWire),
		"apps reply":             survives(appsReplyToWire, appsReplyFromWire),
		"workers reply":          survives(workersReplyToWire, workersReplyFromWire),
		"app request":            survives(appRequestToWire, appRequestFromWire),
		"wait request":           survives(waitAppToWire, waitAppFromWire),
		"drain request":          survives(drainRequestToWire, drainRequestFromWire),
		"drain reply":            survives(drainReplyToWire, drainReplyFromWire),
		"drain terms":            survives(ptr(drainTermsToWire), deref(drainTermsFromWire)),
		"settings":               survives(settingsToWire, settingsFromWire),
		"cluster view":           survives(clusterViewToWire, clusterViewFromWire),
		"gossip member":          survives(gossipViewToWire, gossipViewFromWire),
		"gossip keys":            survives(gossipKeysToWire, gossipKeysFromWire),
		"gossip key order":       survives(gossipKeyOrderToWire, gossipKeyOrderFromWire),
		"why":                    survives(whyToWire, whyFromWire),
		"waiting":                survives(waitingToWire, waitingFromWire),
		"worker identity":        survives(workerIdentityToWire, workerIdentityFromWire),
		"promise request":        survives(promiseToWire, promiseFromWire),
		"promise reply":          survives(promiseReplyToWire, promiseReplyFromWire),
		"peer stats":             survives(peerStatsToWire, peerStatsFromWire),
		"leader gone":            survives(leaderGoneToWire, leaderGoneFromWire),
		"leader gone reply":      survives(leaderGoneReplyToWire, leaderGoneReplyFromWire),
		"hash verdict":           survives(hashVerdictToWire, hashVerdictFromWire),
		"worker hello":           survives(ptr(workerHelloToWire), deref(workerHelloFromWire)),
		"launch order":           survives(ptr(launchToWire), deref(launchFromWire)),
		"executor to driver":     survives(executorUpToWire, executorUpFromWire),
		"driver to executor":     survives(executorDownToWire, executorDownFromWire),
		"worker to leader":       eachKindSurvives(workerUpToWire, workerUpFromWire),
		"leader to worker":       eachKindSurvives(workerDownToWire, workerDownFromWire),
		"driver to leader":       eachKindSurvives(driverUpToWire, driverUpFromWire),
		"leader to driver":       eachKindSurvives(driverDownToWire, driverDownFromWire),
	} {
		t.Run(name, run)
	}
}

func TestAHashReportSurvivesAndAWrongLengthIsRefused(t *testing.T) {
	t.Parallel()
	want := HashReport{From: "m1", Index: 7, Hash: [16]byte{1, 2, 3, 15: 9}}
	got, err := hashReportFromWire(hashReportToWire(want))
	if err != nil || got != want {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
	short := hashReportToWire(want)
	short.Hash = short.Hash[:15]
	if _, err := hashReportFromWire(short); err == nil {
		t.Fatal("15 bytes were accepted as a hash")
	}
}

func TestArgumentsNeedNotBeText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := func(label string) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, label)) }
		want := model.ExecTask{ID: 1, Argv: []string{raw("arg"), raw("arg")}, Env: []string{raw("env")}, Dir: raw("dir")}
		got := taskFromWire(overWire(t, taskToWire(want)))
		if !cmp.Equal(want, got) {
			t.Fatalf("changed on the wire:\n%s", cmp.Diff(want, got))
		}
	})
}

func TestTextThatIsNotUTF8IsRepairedNotRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := model.WorkerUp{Hello: &model.WorkerHello{
			BootID:    "a\xffb",
			Offer:     model.Offer{Labels: map[string]string{"k\xfe": "v\xfd"}, Resources: model.Resources{"gpu": {"\xff"}}},
			Inventory: []model.ExecutorReport{{Reason: "died: \xc3("}},
			Apps:      []model.AppID{"\xff"},
		}}
		got, _ := workerUpFromWire(overWire(t, workerUpToWire(sent)))
		want := model.WorkerUp{Hello: &model.WorkerHello{
			BootID:    "a\uFFFDb",
			Offer:     model.Offer{Labels: map[string]string{"k\uFFFD": "v\uFFFD"}, Resources: model.Resources{"gpu": {"\uFFFD"}}},
			Inventory: []model.ExecutorReport{{Reason: "died: \uFFFD("}},
			Apps:      []model.AppID{"\uFFFD"},
		}}
		if !cmp.Equal(want, got) {
			t.Fatalf("repaired wrongly:\n%s", cmp.Diff(want, got))
		}
		if sent.Hello.Offer.Labels["k\xfe"] != "v\xfd" {
			t.Fatal("the caller's own map was changed")
		}
	})
}

func TestLargeBatchesAreCutAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, batchBytes+batchBytes/2), 0, 12).Draw(t, "sizes")
		var got []int
		for rest := sizes; len(rest) > 0; {
			n := fitting(rest, func(n *int) int { return *n })
			part := rest[:n]
			rest = rest[n:]
			sum := 0
			for _, n := range part {
				sum += n
			}
			if len(part) > 1 && sum > batchBytes {
				t.Fatalf("a part of %d entries has %d bytes", len(part), sum)
			}
			got = append(got, part...)
		}
		if !cmp.Equal(sizes, got, cmpopts.EquateEmpty()) {
			t.Fatalf("order or entries changed: %v -> %v", sizes, got)
		}
	})
}
