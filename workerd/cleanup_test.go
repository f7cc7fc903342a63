//go:build linux

package workerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Name() != lockFile {
			out = append(out, e.Name())
		}
	}
	return out
}

func appN(n int) model.AppID { return model.AppID(fmt.Sprintf("app-20261130061500-%04d", n)) }

func TestOnlyOldDirectoriesOfEndedAppsThatAWorkerMadeAreRemoved(t *testing.T) {
	w := testWorkDir(t)
	now := time.Now()
	for i := range 6 {
		if _, err := w.create(model.ExecutorRef{App: appN(i)}); err != nil {
			t.Fatal(err)
		}
		if i != 4 { // that one is not known to be over
			if err := w.removeScratch(appN(i)); err != nil {
				t.Fatal(err)
			}
		}
		age := time.Duration(i) * time.Hour // 0 is the newest
		if err := os.Chtimes(filepath.Join(w.path, string(appN(i))), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(w.path, string(appN(9)))
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(foreign, now.Add(-time.Hour*99), now.Add(-time.Hour*99)); err != nil {
		t.Fatal(err)
	}
	inUse := func(a model.AppID) bool { return a == appN(3) }

	removed, err := pruneApps(w, now, retention{apps: 2, age: 100 * time.Hour}, inUse)
	if err != nil || removed != 2 {
		t.Errorf("removed %d, %v; want 2", removed, err)
	}
	want := []string{string(appN(0)), string(appN(1)), string(appN(3)), string(appN(4)), string(appN(9))}
	if diff := cmp.Diff(want, entries(t, w.path)); diff != "" {
		t.Errorf("by number (-want +got):\n%s", diff)
	}
	if removed, err = pruneApps(w, now, retention{apps: 99, age: 30 * time.Minute}, inUse); err != nil || removed != 1 {
		t.Errorf("removed %d, %v; want 1", removed, err)
	}
	if slices.Contains(entries(t, w.path), string(appN(1))) {
		t.Error("one that is too old is still there")
	}
}

func TestScratchIsRemovedOnlyWhereAWorkerMadeIt(t *testing.T) {
	w := testWorkDir(t)
	if _, err := w.create(ref(0)); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(w.path, string(appN(2)), scratchDir)
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	apps, err := w.scratchApps()
	if diff := cmp.Diff([]model.AppID{app1}, apps); diff != "" || err != nil {
		t.Errorf("applications with scratch: %v\n%s", err, diff)
	}
	for _, app := range []model.AppID{app1, appN(2), appN(3)} {
		if err := w.removeScratch(app); err != nil {
			t.Errorf("%s: %v", app, err)
		}
	}
	if err := w.removeScratch("../x"); err == nil {
		t.Error("a path was taken for an application")
	}
	if diff := cmp.Diff([]string{markerFile, "0"}, entries(t, filepath.Join(w.path, string(app1)))); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a foreign directory: %v", err)
	}
}

func TestTwoWorkersCannotShareAWorkDirectory(t *testing.T) {
	w := testWorkDir(t)
	if _, err := openWorkDir(w.path); err == nil {
		t.Error("a second worker opened it")
	}
}
