package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestTheDefaultsAreValid(t *testing.T) {
	if err := DefaultMaster().Validate(); err != nil {
		t.Errorf("master: got %v, want none", err)
	}
	w := DefaultWorker()
	w.Worker.Masters = []string{"m:7070"}
	if err := w.Validate(); err != nil {
		t.Errorf("worker: got %v, want none", err)
	}
	if err := DefaultClient().Validate(); err != nil {
		t.Errorf("client: got %v, want none", err)
	}
}

func TestValidateReportsWhatCodeSetsWrongly(t *testing.T) {
	c := DefaultMaster()
	c.Raft.BootstrapExpect = -1
	c.Network.GRPCPort = 70000
	c.Network.Bind = ""
	c.Raft.Preset = "slow"
	var got []string
	var problems *Error
	if err := c.Validate(); !errors.As(err, &problems) {
		t.Fatalf("got %v, want an *Error", err)
	}
	for _, p := range problems.Problems {
		got = append(got, p.Field)
	}
	want := []string{"network.bind", "network.grpc_port", "raft.bootstrap_expect", "raft.preset"}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestNoTwoKeysShareAName(t *testing.T) {
	m, w, c := DefaultMaster(), DefaultWorker(), DefaultClient()
	for _, keys := range [][]key{masterKeys(&m), workerKeys(&w), clientKeys(&c)} {
		seen := make(map[string]int)
		for _, k := range keys {
			seen[k.field()]++
			seen[k.envName()]++
			if k.flag != "" {
				seen["--"+k.flag]++
			}
			if k.usage == "" {
				t.Errorf("%s has no usage text", k.field())
			}
		}
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			if seen[name] > 1 {
				t.Errorf("%s is the name of %d keys", name, seen[name])
			}
		}
	}
}

func TestHelpShowsDefaults(t *testing.T) {
	fs := pflag.NewFlagSet("master", pflag.ContinueOnError)
	BindMasterFlags(fs)
	usage := fs.FlagUsages()
	for _, want := range []string{"--grpc-port int", "(default 7070)", "--allow-insecure", "(default \"lan\")", "--worker-timeout duration"} {
		if !strings.Contains(usage, want) {
			t.Errorf("help lacks %q:\n%s", want, usage)
		}
	}
}

func TestHostPort(t *testing.T) {
	for _, test := range []struct{ in, want, err string }{
		{in: "m1", want: "m1:7070"},
		{in: " m1:1 ", want: "m1:1"},
		{in: "10.0.0.1", want: "10.0.0.1:7070"},
		{in: "::1", want: "[::1]:7070"},
		{in: "[::1]", want: "[::1]:7070"},
		{in: "[::1]:9", want: "[::1]:9"},
		{in: "fe80::1%eth0", want: "[fe80::1%eth0]:7070"},
		{in: "", err: "must name a host"},
		{in: ":7070", err: "must name a host"},
		{in: "m1:", err: "the port of"},
		{in: "m1:http", err: "the port of"},
		{in: "m1:65536", err: "the port of"},
		{in: "http://m1:1", err: "is neither"},
		{in: "a b", err: "is neither"},
		{in: "[::1]:x:y", err: "is neither"},
		{in: strings.Repeat("a", 254), err: "at most 253 bytes"},
	} {
		got, err := HostPort(test.in, 7070)
		if got != test.want || (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
			t.Errorf("HostPort(%q): got %q and error %v, want %q and error %q", test.in, got, err, test.want, test.err)
		}
	}
}

func TestAddressesOfIPv6GetBrackets(t *testing.T) {
	n := Network{Bind: "::1"}
	if got, want := n.BindAddress(1), "[::1]:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := n.AdvertiseAddress(2), "[::1]:2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	n.Advertise = "m1"
	if got, want := n.AdvertiseAddress(2), "m1:2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
