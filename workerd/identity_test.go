//go:build linux

package workerd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAWorkerKeepsItsIDAndCountsItsStarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Date(2026, 11, 30, 6, 15, 0, 0, time.UTC)
	first, err := openIdentity(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if !workerIDForm().MatchString(string(first.id)) || !strings.HasPrefix(string(first.id), "worker-20261130061500-") {
		t.Errorf("id %q is not of the documented form", first.id)
	}
	if err := first.bump(); err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openIdentity(dir, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.close() }()
	if second.id != first.id || second.incarnation != 3 {
		t.Errorf("got %s incarnation %d, want %s incarnation 3", second.id, second.incarnation, first.id)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("data directory has mode %o, want 700", got)
	}
}

func TestTwoWorkersCannotShareADataDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := openIdentity(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.close() }()
	if _, err := openIdentity(dir, time.Now()); !errors.Is(err, ErrLocked) {
		t.Errorf("second worker: got %v, want ErrLocked", err)
	}
}

func TestADamagedIdentityIsAnErrorAndNotANewWorker(t *testing.T) {
	for name, content := range map[string]string{
		"it is no JSON":              "worker",
		"it is empty":                "",
		"the version is unknown":     `{"version":9,"worker_id":"worker-20261130061500-00000000","incarnation":1}`,
		"the id would leave the dir": `{"version":1,"worker_id":"../x","incarnation":1}`,
		"there is more behind":       `{"version":1,"worker_id":"worker-20261130061500-00000000","incarnation":1} x`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if i, err := openIdentity(dir, time.Now()); err == nil {
				t.Errorf("got %s, want an error", i.id)
			}
			// The lock is free again.
			if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
				t.Fatal(err)
			}
			i, err := openIdentity(dir, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			_ = i.close()
		})
	}
}
