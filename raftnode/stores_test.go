package raftnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ST-07: the log and the term were lost, the snapshots were not.
func TestSnapshotsThatTheTermStoreDoesNotKnowAreRefused(t *testing.T) {
	dir := t.TempDir()
	n, _ := openSingle(t, Config{DataDir: dir}, nil)
	if _, err := n.Propose(testContext(t), command("r1")); err != nil {
		t.Fatal(err)
	}
	if err := n.Snapshot(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{boltFile, walFolder} {
		if err := os.RemoveAll(filepath.Join(dir, raftFolder, lost)); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir}, nil)
	if err == nil || !strings.Contains(err.Error(), "do not belong together") {
		t.Errorf("got %v, want a refusal that names both", err)
	}
}

// ST-05: a damaged file gives one line and no panic.
func TestADamagedStoreIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, damage := range []func(whole []byte) []byte{
		func(whole []byte) []byte { return []byte("not a database") },
		func(whole []byte) []byte { return whole[:len(whole)/3] },
		func(whole []byte) []byte {
			for i := range whole {
				whole[i] ^= byte(i*7 + 1)
			}
			return whole
		},
	} {
		dir := t.TempDir()
		n, _ := openSingle(t, Config{DataDir: dir}, nil)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, raftFolder, boltFile)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir}, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	}
}
