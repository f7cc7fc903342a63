package fsm

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
)

var update = flag.Bool("update", false, "write golden encodings and fuzz seeds that are missing")

func kinds() protoreflect.FieldDescriptors {
	return (&replogv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
}

// TestEachKindIsComplete fails when a command is added to the log without a
// handler, a golden encoding or a fuzz seed.
func TestEachKindIsComplete(t *testing.T) {
	t.Parallel()
	all := samples()
	if got, want := len(all), kinds().Len(); got != want {
		t.Errorf("%d samples for %d kinds", got, want)
	}
	for i := range kinds().Len() {
		fd := kinds().Get(i)
		name := string(fd.Name())
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			empty := &replogv1.Command{}
			empty.ProtoReflect().Set(fd, empty.ProtoReflect().NewField(fd))
			if res := newWorld(t).do(empty)[0]; strings.Contains(res.Text, "no handler") {
				t.Errorf("has no handler in tx.dispatch")
			}
			sample, ok := all[name]
			if !ok {
				t.Fatal("has no sample in samples_test.go")
			}
			if set := sample.ProtoReflect().WhichOneof(fd.ContainingOneof()); set == nil || set.Name() != fd.Name() {
				t.Fatal("its sample is of another kind")
			}
			checkAllSet(t, sample.ProtoReflect().Get(fd).Message())
			checkGolden(t, name, sample)
			checkOlderGoldens(t, name, fd)
			checkSeed(t, name, sample)
		})
	}
}

// checkAllSet makes sure that a new field gets into the golden encoding.
func checkAllSet(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); !m.Has(fd) {
			t.Errorf("the sample does not set %s", fd.FullName())
		}
	}
}

// checkGolden compares with the encoding that was released: it must be read
// as the same command for ever.
func checkGolden(t *testing.T, name string, sample *replogv1.Command) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".hex")
	now, err := proto.MarshalOptions{Deterministic: true}.Marshal(sample)
	if err != nil {
		t.Fatal(err)
	}
	writeMissing(t, path, []byte(hex.EncodeToString(now)+"\n"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no golden encoding: %v (run with -update)", err)
	}
	golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var then replogv1.Command
	if err := proto.Unmarshal(golden, &then); err != nil {
		t.Fatalf("golden encoding: %v", err)
	}
	if diff := cmp.Diff(&then, sample, protocmp.Transform()); diff != "" {
		t.Errorf("the golden encoding is read as another command (-golden +now):\n%s", diff)
	}
}

// checkOlderGoldens opens encodings from before fields were added: kind.N.hex.
func checkOlderGoldens(t *testing.T, name string, kind protoreflect.FieldDescriptor) {
	t.Helper()
	older, err := filepath.Glob(filepath.Join("testdata", "golden", name+".*.hex"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range older {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		var c replogv1.Command
		if err := proto.Unmarshal(data, &c); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		m := c.ProtoReflect()
		if set := m.WhichOneof(kind.ContainingOneof()); set == nil || set.Name() != kind.Name() || len(m.GetUnknown())+len(m.Get(kind).Message().GetUnknown()) > 0 {
			t.Errorf("%s is read as another command: %v", path, &c)
		}
	}
}

func checkSeed(t *testing.T, name string, sample *replogv1.Command) {
	t.Helper()
	entry, err := EncodeBatch([]*replogv1.Command{sample})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "fuzz", "FuzzApply", name)
	writeMissing(t, path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%s)\n", strconv.Quote(string(entry))))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("no fuzz seed: %v (run with -update)", err)
	}
}

func writeMissing(t *testing.T, path string, data []byte) {
	t.Helper()
	if _, err := os.Stat(path); err == nil || !*update {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersOfCommandsStay pins the numbers in the log.
func TestNumbersOfCommandsStay(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for i := range kinds().Len() {
		got[string(kinds().Get(i).Name())] = int(kinds().Get(i).Number())
	}
	want := map[string]int{
		"init_cluster": 20, "register_master": 21, "remove_master": 22, "set_settings": 23,
		"register_worker": 30, "leave_worker": 31, "mark_worker": 32,
		"register_app": 40, "finish_app": 41, "kill_app": 42, "set_targets": 43, "note_app": 44,
		"create_token": 45, "revoke_token": 46, "record_audit": 47,
		"place_executors": 50, "kill_executors": 51, "report_executors": 52,
		"confirm_executors": 53, "expire_executors": 54, "settle_apps": 55,
		"place_drivers": 60, "submit_driver": 61, "kill_driver": 62, "kill_drivers": 63, "expire_drivers": 64,
		"drain_workers": 70, "undrain_workers": 71, "stop_drained": 72,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}
