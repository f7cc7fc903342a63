package gossip

import (
	"fmt"
	"net"
	"strconv"

	"github.com/hashicorp/memberlist"

	"github.com/hearthd/hearth/model"
)

// Limits of tags. All of a member's tags travel in one datagram.
const (
	// MaxTagBytes bounds the encoded tags of a member; memberlist refuses more.
	MaxTagBytes = memberlist.MetaMaxSize
	// MaxIDBytes bounds a member id; serf allows no more.
	MaxIDBytes = 128
	// MaxClusterIDBytes bounds a cluster id.
	MaxClusterIDBytes = 64
	// MaxAddrBytes bounds a "host:port" in the tags. A longer host name must be advertised by address.
	MaxAddrBytes = 128
	// MaxVersionBytes bounds a version string.
	MaxVersionBytes = 48
	// MaxBootstrapExpect bounds the number of masters a cluster may begin with.
	MaxBootstrapExpect = 99
)

// The keys of tags on the wire, one letter each because of MaxTagBytes. They are append-only: a retired letter is not
// used again, and a reader ignores those it does not know.
const (
	keyRole         = "r"
	keyCluster      = "c"
	keyEpoch        = "e"
	keyEpochID      = "x"
	keyGRPC         = "g"
	keyRaft         = "a"
	keyHTTP         = "h"
	keyIncarnation  = "n"
	keyExpect       = "b"
	keyBootstrapped = "d"
	keyVersion      = "v"
	keyMemoryUsed   = "m"
)

// Bounds of what the encoding adds to the text of the tags: serf's magic byte and the map header, and the headers of one
// key and one value.
const (
	tagMapOverhead  = 1 + 3
	tagPairOverhead = 3 + 3
)

// Tags is what a member tells the others about itself.
type Tags struct {
	// Role is required.
	Role Role
	// ID is the member's id. It travels as the member's name, not among the tags.
	ID string
	// Cluster is the identity of the cluster it belongs to, zero before it has one.
	Cluster model.ClusterIdentity
	// GRPCAddr, RaftAddr and HTTPAddr are the advertised "host:port" of its services, empty when it has none.
	GRPCAddr, RaftAddr, HTTPAddr string
	// Incarnation counts the starts of a worker.
	Incarnation uint64
	// BootstrapExpect is how many masters a master waits for before the first bootstrap.
	BootstrapExpect int
	// Bootstrapped says that a master holds the state of a cluster.
	Bootstrapped bool
	// Version is the version of its program.
	Version string
	// MemoryUsedMiB is what is in use on a worker's machine, by whomever, of what the worker may use; 0: not known.
	MemoryUsedMiB uint64
}

// Validate reports the first field that breaks a rule, or that the whole exceeds [MaxTagBytes].
func (t Tags) Validate() error {
	_, err := encodeTags(t)
	return err
}

// encodeTags checks the tags and turns them into serf's map.
func encodeTags(t Tags) (map[string]string, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	tags := map[string]string{keyRole: string(t.Role)}
	put := func(key, value string) {
		if value != "" && value != "0" {
			tags[key] = value
		}
	}
	put(keyCluster, t.Cluster.ID)
	put(keyEpoch, strconv.FormatUint(t.Cluster.Epoch, 10))
	put(keyEpochID, strconv.FormatUint(t.Cluster.EpochID, 16))
	put(keyGRPC, t.GRPCAddr)
	put(keyRaft, t.RaftAddr)
	put(keyHTTP, t.HTTPAddr)
	put(keyIncarnation, strconv.FormatUint(t.Incarnation, 10))
	put(keyExpect, strconv.Itoa(t.BootstrapExpect))
	if t.Bootstrapped {
		put(keyBootstrapped, "1")
	}
	put(keyVersion, t.Version)
	put(keyMemoryUsed, strconv.FormatUint(t.MemoryUsedMiB, 10))
	size := tagMapOverhead
	for key, value := range tags {
		size += len(key) + len(value) + tagPairOverhead
	}
	if size > MaxTagBytes {
		return nil, fmt.Errorf("tags take %d bytes, limit %d: use shorter addresses", size, MaxTagBytes)
	}
	return tags, nil
}

// decodeTags is the reverse of encodeTags for the member called id. It refuses what encodeTags would not have written,
// except keys it does not know.
func decodeTags(id string, tags map[string]string) (Tags, error) {
	t := Tags{
		Role:     Role(tags[keyRole]),
		ID:       id,
		Cluster:  model.ClusterIdentity{ID: tags[keyCluster]},
		GRPCAddr: tags[keyGRPC],
		RaftAddr: tags[keyRaft],
		HTTPAddr: tags[keyHTTP],
		Version:  tags[keyVersion],
	}
	var expect uint64
	numbers := []struct {
		key    string
		base   int
		result *uint64
	}{
		{keyEpoch, 10, &t.Cluster.Epoch},
		{keyEpochID, 16, &t.Cluster.EpochID},
		{keyIncarnation, 10, &t.Incarnation},
		{keyExpect, 10, &expect},
		{keyMemoryUsed, 10, &t.MemoryUsedMiB},
	}
	for _, n := range numbers {
		text, ok := tags[n.key]
		if !ok {
			continue
		}
		value, err := strconv.ParseUint(text, n.base, 64)
		if err != nil || strconv.FormatUint(value, n.base) != text {
			return Tags{}, fmt.Errorf("tag %q: %q is not a number", n.key, text)
		}
		*n.result = value
	}
	if expect > MaxBootstrapExpect {
		return Tags{}, fmt.Errorf("bootstrap expect %d: limit %d", expect, MaxBootstrapExpect)
	}
	t.BootstrapExpect = int(expect)
	switch tags[keyBootstrapped] {
	case "":
	case "1":
		t.Bootstrapped = true
	default:
		return Tags{}, fmt.Errorf("tag %q: %q is neither empty nor 1", keyBootstrapped, tags[keyBootstrapped])
	}
	if err := t.check(); err != nil {
		return Tags{}, err
	}
	return t, nil
}

// check holds the rules of single fields, for what is sent and for what is received.
func (t Tags) check() error {
	if t.Role != RoleMaster && t.Role != RoleWorker {
		return fmt.Errorf("role %q: want %q or %q", t.Role, RoleMaster, RoleWorker)
	}
	if err := checkID(t.ID); err != nil {
		return err
	}
	if err := checkText("cluster id", t.Cluster.ID, MaxClusterIDBytes); err != nil {
		return err
	}
	if t.Cluster.IsZero() && (t.Cluster.Epoch != 0 || t.Cluster.EpochID != 0) {
		return fmt.Errorf("epoch %d without a cluster id", t.Cluster.Epoch)
	}
	if err := checkText("version", t.Version, MaxVersionBytes); err != nil {
		return err
	}
	if t.BootstrapExpect < 0 || t.BootstrapExpect > MaxBootstrapExpect {
		return fmt.Errorf("bootstrap expect %d: want 0 to %d", t.BootstrapExpect, MaxBootstrapExpect)
	}
	if t.MemoryUsedMiB > model.MaxMemoryMiB {
		return fmt.Errorf("%d MiB in use: limit %d", t.MemoryUsedMiB, int64(model.MaxMemoryMiB))
	}
	for _, a := range []struct{ name, addr string }{
		{"gRPC address", t.GRPCAddr}, {"Raft address", t.RaftAddr}, {"HTTP address", t.HTTPAddr},
	} {
		if a.addr == "" {
			continue
		}
		if err := checkText(a.name, a.addr, MaxAddrBytes); err != nil {
			return err
		}
		if err := checkHostPort(a.addr); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// checkID holds serf's rules for names, so that a bad id is an error of ours with a name, at the start.
func checkID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("member id %.*q: want 1 to %d bytes", MaxIDBytes, id, MaxIDBytes)
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' {
			return fmt.Errorf("member id %q: only letters, digits, '-' and '.' are allowed", id)
		}
	}
	return nil
}

// checkText allows visible ASCII only: the text ends up in logs and pages.
func checkText(name, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s of %d bytes: limit %d", name, len(text), limit)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return fmt.Errorf("%s %q: only visible ASCII characters are allowed", name, text)
		}
	}
	return nil
}

// checkHostPort wants a host that can be dialled and a port from 1.
func checkHostPort(addr string) error {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("parse address %q: %w", addr, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 || host == "" {
		return fmt.Errorf("address %q: want host:port with a port of 1 to 65535", addr)
	}
	return nil
}
