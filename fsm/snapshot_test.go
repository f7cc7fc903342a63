package fsm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/testing/protocmp"
)

// dump shows everything that a view can show.
func dump(v *View) map[string]any {
	out := map[string]any{
		"index": v.Index(), "tick": v.Tick(), "meta": headerOf(v.s), "hash": v.HashString(), "audit": v.Audit(0),
	}
	var masters []*model.Master
	v.Masters(func(m *model.Master) bool { masters = append(masters, m); return true })
	var workers []*model.Worker
	usage := map[model.WorkerID]model.Usage{}
	v.Workers(func(w *model.Worker) bool {
		workers = append(workers, w)
		usage[w.ID] = v.Usage(w.ID)
		return true
	})
	var apps []*model.App
	v.ActiveApps(func(a *model.App) bool { apps = append(apps, a); return true })
	v.EndedApps(func(a *model.App) bool { apps = append(apps, a); return true })
	var executors []*model.Executor
	v.AllExecutors(func(e *model.Executor) bool { executors = append(executors, e); return true })
	var requests []*replogv1.RememberedRequest
	v.s.reqOrder.tree.walk(func(_, id string) bool {
		if r, ok := v.s.requests.get([]byte(id)); ok {
			requests = append(requests, requestToProto(r))
		}
		return true
	})
	out["masters"], out["workers"], out["usage"], out["apps"] = masters, workers, usage, apps
	var tokens []*model.Token
	v.Tokens(func(t *model.Token) bool { tokens = append(tokens, t); return true })
	out["executors"], out["requests"], out["tokens"] = executors, requests, tokens
	return out
}

func sameState(t testing.TB, want, got *View) {
	t.Helper()
	if diff := cmp.Diff(dump(want), dump(got), protocmp.Transform(), cmp.Comparer(sameUsage)); diff != "" {
		t.Errorf("states differ (-want +got):\n%s", diff)
	}
}

func TestASnapshotRestoresTheSameState(t *testing.T) {
	t.Parallel()
	w := furnished(t)
	first := w.snapshot()
	f := New(CheckInvariants())
	if err := f.Restore(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	sameState(t, w.v(), f.View())
	var second bytes.Buffer
	if _, err := f.Snapshot().WriteTo(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second.Bytes()) {
		t.Error("the snapshot of the restored state has other bytes")
	}
	// Both go on alike.
	r := &world{t: t, f: f, index: w.index, tick: w.tick}
	for _, x := range []*world{w, r} {
		x.after(5000).do(killApp(sampleApp), withID(regApp(driverSpec()), "register-1", 0), regApp(driverSpec()))
	}
	sameState(t, w.v(), r.v())
}

func TestASnapshotIsNotChangedByWhatIsAppliedAfterIt(t *testing.T) {
	t.Parallel()
	w := furnished(t)
	want := w.snapshot()
	sn, view := w.f.Snapshot(), w.v()
	before := dump(view)
	w.after(1000).do(killApp(sampleApp), leave("w1", 1), removeMaster("m1"))
	var got bytes.Buffer
	if _, err := sn.WriteTo(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Error("a captured snapshot has changed")
	}
	if diff := cmp.Diff(before, dump(view), protocmp.Transform()); diff != "" {
		t.Errorf("a view has changed:\n%s", diff)
	}
}

func TestADamagedSnapshotChangesNothing(t *testing.T) {
	t.Parallel()
	good := furnished(t).snapshot()
	resealed := func(change func([]byte) []byte) []byte {
		return sealed(change(bytes.Clone(good[:len(good)-sha256.Size])))
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "cut short"},
		{"another file", []byte("#!/bin/sh\necho hello, this is not it\n"), "does not begin"},
		{"cut in the middle", good[:len(good)/2], "cut short"},
		{"without its checksum", good[:len(good)-sha256.Size], "cut short"},
		{"with something after it", append(bytes.Clone(good), 0), "follows its end"},
		{"one bit flipped", flip(good, len(good)/2), ""},
		{"a length beyond the limit", append(bytes.Clone(good[:9]), 0xff, 0xff, 0xff, 0xff), "the limit is"},
		{"another number with a right checksum", resealed(func(b []byte) []byte {
			return bytes.Replace(b, []byte("127.0.0.1:7073"), []byte("127.0.0.1:7079"), 1)
		}), "state hash"},
		{"another format with a right checksum", resealed(func(b []byte) []byte {
			b[len(snapshotMagic)+6] = 2
			return b
		}), "format 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(regMaster("m9", "a:1"))
			before := w.v()
			err := w.f.Restore(bytes.NewReader(tc.data))
			if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want ErrSnapshot with %q", err, tc.want)
			}
			sameState(t, before, w.v())
		})
	}
}

// sealed puts the right checksum behind a snapshot's bytes.
func sealed(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func flip(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1
	return b
}

func TestEachFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regMaster("m1", "a:1"))
	good := w.snapshot()
	for i := range good {
		if _, err := ReadSnapshot(bytes.NewReader(flip(good, i))); err == nil {
			t.Errorf("byte %d of %d flipped and nobody noticed", i, len(good))
		}
	}
}

func TestABrokenStateIsNotWritten(t *testing.T) {
	t.Parallel()
	w := furnished(t)
	bad := *w.f.cur.Load()
	bad.hash.add(Hash{lo: 1})
	n, err := (&Snapshot{s: &bad}).WriteTo(io.Discard)
	if !errors.Is(err, ErrBroken) || n != 0 {
		t.Errorf("wrote %d bytes with %v, want nothing and ErrBroken", n, err)
	}
}

func TestAFailingWriterIsReported(t *testing.T) {
	t.Parallel()
	r, wr := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := furnished(t).f.Snapshot().WriteTo(wr); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("err = %v, want the writer's", err)
	}
}

// TestReleasedSnapshotsOpen opens one snapshot of each format that was ever
// released.
func TestReleasedSnapshotsOpen(t *testing.T) {
	t.Parallel()
	for format, hash := range map[string]string{
		"format-1":        "85d3a6087b6f5d6bf8f3eccbbf53ffbd",
		"format-1-tokens": "00b39bfb4ab3ef515e29bfd4572a3f24",
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", "snapshot", format+".snap")
			writeMissing(t, path, furnished(t).snapshot())
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			v, err := ReadSnapshot(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if v.HashString() != hash {
				t.Errorf("hash = %s, want %s", v.HashString(), hash)
			}
			if a, ok := v.App(sampleApp); !ok || a.Spec.Name != "job" || len(a.Finished) != 1 {
				t.Errorf("application %s = %+v, want it with one ended executor", sampleApp, a)
			}
		})
	}
}
