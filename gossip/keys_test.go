package gossip

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// holders writes a report as "id:holders/primary".
func holders(r KeyReport) string {
	var out []string
	for _, k := range r.Keys {
		out = append(out, fmt.Sprintf("%s:%d/%d", k.ID, k.Holders, k.Primary))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func held(key []byte, holders, primary int) string {
	return fmt.Sprintf("%s:%d/%d", KeyID(key), holders, primary)
}

// keyed starts members that all know the first one, with a ring file each.
func keyedPool(t *testing.T, out *lockedBuffer, ids ...string) []*node {
	t.Helper()
	var nodes []*node
	for _, id := range ids {
		cfg := worker(id, clusterA)
		cfg.Keys = [][]byte{testKey(1)}
		cfg.KeyringFile = filepath.Join(t.TempDir(), "gossip-keyring.json")
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: out})
		if len(nodes) > 0 {
			cfg.Join = []string{nodes[0].LocalAddr()}
		}
		nodes = append(nodes, start(t, cfg))
	}
	for _, n := range nodes {
		for _, id := range ids {
			waitStatus(t, 10*time.Second, n, id, StatusAlive)
		}
	}
	return nodes
}

// askUntil repeats a question or an order until all members have answered: on a busy machine an answer may come late.
func askUntil(t *testing.T, what string, ask func() (KeyReport, error), want string) KeyReport {
	t.Helper()
	var r KeyReport
	var err error
	eventually(t, 30*time.Second, what, func() bool {
		r, err = ask()
		return err == nil && holders(r) == want
	}, func() any { return fmt.Sprintf("%s, %+v, %v; want %s", holders(r), r, err, want) })
	return r
}

func TestKeysAreExchangedWhileMembersGossip(t *testing.T) {
	var logs lockedBuffer
	nodes := keyedPool(t, &logs, "w1", "w2", "w3")
	first := nodes[0]
	one, two := testKey(1), testKey(2)
	askUntil(t, "one key", first.Keys, held(one, 3, 3))
	if _, err := first.RemoveKey(KeyID(one), false); !errors.Is(err, ErrMembersMissing) {
		t.Errorf("remove the key in use: got error %v, want a refusal", err)
	}
	if _, err := first.UseKey(KeyID(two), false); !errors.Is(err, ErrNoKey) {
		t.Errorf("use a key that nobody has: got error %v, want ErrNoKey", err)
	}
	askUntil(t, "two keys", func() (KeyReport, error) { return first.InstallKey(two) }, sortedPair(held(one, 3, 3), held(two, 3, 0)))
	askUntil(t, "the other key is used", func() (KeyReport, error) { return first.UseKey(KeyID(two), false) }, sortedPair(held(one, 3, 0), held(two, 3, 3)))
	askUntil(t, "the first key is gone", func() (KeyReport, error) {
		r, err := nodes[1].RemoveKey(KeyID(one), false)
		if errors.Is(err, ErrNoKey) { // done by an earlier try
			return nodes[1].Keys()
		}
		return r, err
	}, held(two, 3, 3))

	// The ring survives a restart although the key file still has the first key.
	path := nodes[2].cfg.KeyringFile
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the ring's file: got mode %v (%v), want 0600", info.Mode(), err)
	}
	nodes[2].stop()
	again := nodes[2].cfg
	start(t, again)
	waitStatus(t, 20*time.Second, first, "w3", StatusAlive)
	askUntil(t, "three members again", first.Keys, held(two, 3, 3))

	// A new member needs the key in use.
	late := worker("w4", clusterA, first.LocalAddr())
	late.Keys = [][]byte{two}
	start(t, late)
	waitStatus(t, 20*time.Second, first, "w4", StatusAlive)
	for _, key := range [][]byte{one, two} {
		for _, secret := range []string{base64.StdEncoding.EncodeToString(key), string(key), fmt.Sprintf("%d", key)} {
			if strings.Contains(logs.String(), secret) {
				t.Error("a key is in the log")
			}
		}
	}
}

// TestAFailedMemberStopsTheExchangeOfKeys: it could not come back. It is named, and force overrides. It then comes back
// with a new key file.
func TestAFailedMemberStopsTheExchangeOfKeys(t *testing.T) {
	var logs lockedBuffer
	nodes := keyedPool(t, &logs, "w1", "w2", "w3")
	first, lost := nodes[0], nodes[2]
	one, two := testKey(1), testKey(2)
	lost.stop()
	waitStatus(t, 30*time.Second, first, "w3", StatusFailed)
	r := askUntil(t, "both that are there have it", func() (KeyReport, error) { return first.InstallKey(two) }, sortedPair(held(one, 2, 2), held(two, 2, 0)))
	if !slices.Equal(r.Absent, []string{"w3"}) {
		t.Errorf("absent: got %v, want w3", r.Absent)
	}
	if _, err := first.UseKey(KeyID(two), false); !errors.Is(err, ErrMembersMissing) || !strings.Contains(err.Error(), "w3 failed") {
		t.Errorf("got error %v, want one that names w3", err)
	}
	askUntil(t, "forced", func() (KeyReport, error) { return first.UseKey(KeyID(two), true) }, sortedPair(held(one, 2, 0), held(two, 2, 2)))
	askUntil(t, "the old one removed", func() (KeyReport, error) {
		r, err := first.RemoveKey(KeyID(one), true)
		if errors.Is(err, ErrNoKey) {
			return first.Keys()
		}
		return r, err
	}, held(two, 2, 2))

	back := lost.cfg
	back.Keys = [][]byte{two}
	start(t, back)
	waitStatus(t, 30*time.Second, first, "w3", StatusAlive)
}

func sortedPair(a, b string) string {
	s := []string{a, b}
	slices.Sort(s)
	return strings.Join(s, " ")
}

func TestKeysOfAnUnencryptedPoolCannotBeChanged(t *testing.T) {
	n, err := New(worker("w1", clusterA))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	if _, err := n.Keys(); !errors.Is(err, ErrNotEncrypted) {
		t.Errorf("list: got error %v, want ErrNotEncrypted", err)
	}
	if _, err := n.InstallKey(testKey(1)); !errors.Is(err, ErrNotEncrypted) {
		t.Errorf("install: got error %v, want ErrNotEncrypted", err)
	}
}

func TestAKeyFileIsPrivateAndWellFormed(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(testKey(7))
	for _, test := range []struct {
		name, text string
		mode       os.FileMode
		want       string // "" = accepted
	}{
		{"one key", good + "\n", 0o600, ""},
		{"a comment and two keys", "# a\n\n" + good + "\n" + base64.StdEncoding.EncodeToString(testKey(8)), 0o400, ""},
		{"others can read it", good, 0o644, "chmod 600"},
		{"no key", "\n# none\n", 0o600, "at least one key"},
		{"not base64", "secret!\n", 0o600, "line 1: must be 16, 24 or 32 bytes in base64"},
		{"too short", base64.StdEncoding.EncodeToString([]byte("short")), 0o600, "line 1"},
		{"too many", strings.Repeat(good+"\n", MaxKeys+1), 0o600, "at most 8 keys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gossip.key")
			if err := os.WriteFile(path, []byte(test.text), test.mode); err != nil {
				t.Fatal(err)
			}
			keys, err := ReadKeyFile(path)
			if test.want == "" {
				if err != nil || !bytes.Equal(keys[0], testKey(7)) {
					t.Errorf("got %d keys and error %v, want the first one", len(keys), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret!") {
				t.Errorf("got error %v, want one with %q and without the text", err, test.want)
			}
		})
	}
}

func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(base64.StdEncoding.EncodeToString(testKey(1))))
	f.Add([]byte("# comment\n\nAAAA\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := ParseKeys(text)
		if (err == nil) != (len(keys) > 0 && len(keys) <= MaxKeys) {
			t.Errorf("got %d keys and error %v", len(keys), err)
		}
	})
}
