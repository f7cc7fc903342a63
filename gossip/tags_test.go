package gossip

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/serf/serf"

	"github.com/hearthd/hearth/model"
)

// fullTags has every field set.
func fullTags() Tags {
	return Tags{
		Role: RoleMaster, ID: "master-0123456789abcdef",
		Cluster:  model.ClusterIdentity{ID: "c0ffee00-1111-2222-3333-444455556666", Epoch: 3, EpochID: ^uint64(0)},
		GRPCAddr: "m1.example.org:7070", RaftAddr: "[fd00::1]:7071", HTTPAddr: "10.0.0.1:8080",
		Incarnation: 17, BootstrapExpect: 3, Bootstrapped: true, Version: "v1.2.3-rc.1+abcdef", MemoryUsedMiB: 9216,
	}
}

func TestTagsSurviveTheWire(t *testing.T) {
	for name, want := range map[string]Tags{
		"every field": fullTags(),
		"only a role": {Role: RoleWorker, ID: "w"},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := encodeTags(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeTags(want.ID, encoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadTagsAreRefusedBothWays(t *testing.T) {
	tests := map[string]struct {
		change func(*Tags)
		want   string
	}{
		"no role":                   {func(t *Tags) { t.Role = "" }, "role"},
		"an unknown role":           {func(t *Tags) { t.Role = "boss" }, "role"},
		"no id":                     {func(t *Tags) { t.ID = "" }, "member id"},
		"an id with a space":        {func(t *Tags) { t.ID = "a b" }, "member id"},
		"a long id":                 {func(t *Tags) { t.ID = strings.Repeat("a", MaxIDBytes+1) }, "member id"},
		"a cluster id with newline": {func(t *Tags) { t.Cluster.ID = "a\nb" }, "cluster id"},
		"a long cluster id":         {func(t *Tags) { t.Cluster.ID = strings.Repeat("a", MaxClusterIDBytes+1) }, "cluster id"},
		"an epoch without cluster":  {func(t *Tags) { t.Cluster.ID = "" }, "epoch"},
		"an address without port":   {func(t *Tags) { t.GRPCAddr = "host" }, "gRPC address"},
		"an address without host":   {func(t *Tags) { t.RaftAddr = ":1" }, "Raft address"},
		"more memory than can be":   {func(t *Tags) { t.MemoryUsedMiB = model.MaxMemoryMiB + 1 }, "MiB in use"},
		"a named port":              {func(t *Tags) { t.HTTPAddr = "h:http" }, "HTTP address"},
		"a long address":            {func(t *Tags) { t.HTTPAddr = strings.Repeat("a", MaxAddrBytes) + ":1" }, "HTTP address"},
		"a negative expectation":    {func(t *Tags) { t.BootstrapExpect = -1 }, "bootstrap expect"},
		"a large expectation":       {func(t *Tags) { t.BootstrapExpect = MaxBootstrapExpect + 1 }, "bootstrap expect"},
		"a version with umlaut":     {func(t *Tags) { t.Version = "vü" }, "version"},
		"more than a datagram bears": {func(t *Tags) {
			long := strings.Repeat("a", MaxAddrBytes-10) + ":7070"
			t.GRPCAddr, t.RaftAddr, t.HTTPAddr = long, long, long
			t.Version = strings.Repeat("v", MaxVersionBytes)
		}, "limit 512"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tags := fullTags()
			tt.change(&tags)
			if err := tags.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one about %q", err, tt.want)
			}
		})
	}
	for name, raw := range map[string]map[string]string{
		"nothing at all":          {},
		"a number with a sign":    {keyRole: "worker", keyIncarnation: "+1"},
		"a number with a zero":    {keyRole: "worker", keyIncarnation: "01"},
		"an epoch id in capitals": {keyRole: "worker", keyCluster: "c", keyEpochID: "AB"},
		"a flag that is not one":  {keyRole: "master", keyBootstrapped: "yes"},
		"a huge expectation":      {keyRole: "master", keyExpect: "18446744073709551615"},
	} {
		t.Run("received "+name, func(t *testing.T) {
			if got, err := decodeTags("w", raw); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestUnknownTagsOfNewerVersionsAreIgnored(t *testing.T) {
	got, err := decodeTags("w", map[string]string{keyRole: "worker", "zz": "from the future"})
	if err != nil || got.Role != RoleWorker {
		t.Errorf("got %+v, %v; want a worker", got, err)
	}
}

func TestASizeThatPassesOurLimitPassesTheLibrarys(t *testing.T) {
	tags := fullTags()
	for n := 0; n <= MaxAddrBytes-5; n++ {
		tags.GRPCAddr = strings.Repeat("g", n+1) + ":7070"
		tags.RaftAddr = strings.Repeat("r", n+1) + ":7071"
		tags.HTTPAddr = strings.Repeat("h", n+1) + ":8080"
		if tags.Validate() != nil {
			if n < 64 {
				t.Errorf("addresses of %d bytes are refused: %v", n, tags.Validate())
			}
			return
		}
		if size := librarySize(t, tags); size > MaxTagBytes {
			t.Fatalf("tags pass but take %d bytes", size)
		}
	}
	t.Fatal("the limit was never reached")
}

// librarySize computes what serf makes of the tags: a magic byte and a msgpack map of strings.
func librarySize(t *testing.T, tags Tags) int {
	t.Helper()
	encoded, err := encodeTags(tags)
	if err != nil {
		t.Fatal(err)
	}
	header := func(n int) int {
		switch {
		case n < 32:
			return 1
		default:
			return 3 // serf writes the old format, without str8
		}
	}
	size := 1 + 1
	for k, v := range encoded {
		size += header(len(k)) + len(k) + header(len(v)) + len(v)
	}
	return size
}

// FuzzTags checks that what is accepted from the wire is a fixed point of the codec.
func FuzzTags(f *testing.F) {
	f.Add("w", "r", "worker", "c", "cluster", "e", "1")
	f.Add("m", "r", "master", "b", "3", "d", "1")
	f.Add("m", "r", "master", "g", "h:1", "a", "[::1]:2")
	f.Add("m", "r", "worker", "n", "00", "x", "FF")
	f.Add("m\x00", "r", "", "h", "::::", "b", "-1")
	f.Fuzz(func(t *testing.T, id, k1, v1, k2, v2, k3, v3 string) {
		tags, err := decodeTags(id, map[string]string{k1: v1, k2: v2, k3: v3})
		if err != nil {
			return
		}
		encoded, err := encodeTags(tags)
		if err != nil {
			if strings.Contains(err.Error(), "limit 512") {
				return
			}
			t.Fatalf("accepted %+v but cannot send it: %v", tags, err)
		}
		again, err := decodeTags(id, encoded)
		if err != nil || again != tags {
			t.Fatalf("second pass: got %+v, %v; want %+v", again, err, tags)
		}
	})
}

func TestMembersOfOtherProtocolsAreNotTranslated(t *testing.T) {
	if got, err := member(serf.Member{Name: "consul-1", Tags: map[string]string{"role": "consul"}}); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}
