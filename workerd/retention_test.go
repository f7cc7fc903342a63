//go:build linux

package workerd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func pruneApps(w *workDir, now time.Time, keep retention, inUse func(model.AppID) bool) (int, error) {
	k, err := w.prune(context.Background(), now, keep, inUse)
	return k.removed, err
}

const mib = 1 << 20

func nobody(model.AppID) bool { return false }

// endedApp makes the directory of an application of which so many executors have run, each with a
// file of a MiB and output, and which was over age ago.
func endedApp(t *testing.T, w *workDir, n, executors int, now time.Time, age time.Duration) {
	t.Helper()
	for i := range executors {
		dir, err := w.create(model.ExecutorRef{App: appN(n), Executor: model.ExecutorID(i)})
		if err != nil {
			t.Fatal(err)
		}
		for name, size := range map[string]int{"data": mib, "stdout": 100, "stdout.1": 100, "stderr": 100, "stdout.txt": 1} {
			if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), size), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.removeScratch(appN(n)); err != nil {
		t.Fatal(err)
	}
	aged(t, w, n, now, age)
}

func aged(t *testing.T, w *workDir, n int, now time.Time, age time.Duration) {
	t.Helper()
	if err := os.Chtimes(filepath.Join(w.path, string(appN(n))), now.Add(-age), now.Add(-age)); err != nil {
		t.Fatal(err)
	}
}

func generous(budget int64) retention {
	return retention{apps: 1000, age: 1000 * time.Hour, budget: budget}
}

func TestTheOldestEndedApplicationsGoWhenTheBudgetIsPassed(t *testing.T) {
	w, now := testWorkDir(t), time.Now()
	for n := range 5 {
		endedApp(t, w, n, 1, now, time.Duration(n)*time.Hour) // 0 is the newest
	}
	k, err := w.prune(t.Context(), now, generous(3*mib+mib/2), nobody)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{string(appN(0)), string(appN(1)), string(appN(2))}, entries(t, w.path)); diff != "" {
		t.Errorf("the three newest should be left (-want +got):\n%s", diff)
	}
	if k.removed != 2 || k.freed < 2*mib || k.ended < 3*mib || k.ended > 3*mib+mib/2 {
		t.Errorf("%+v: want two removed, two MiB freed, three left", k)
	}
}

func TestALiveApplicationIsNeverRemovedHoweverLargeItIs(t *testing.T) {
	w, now := testWorkDir(t), time.Now()
	endedApp(t, w, 1, 3, now, 99*time.Hour)                              // in use still
	if _, err := w.create(model.ExecutorRef{App: appN(2)}); err != nil { // not known to be over
		t.Fatal(err)
	}
	endedApp(t, w, 3, 1, now, time.Hour)
	k, err := w.prune(t.Context(), now, generous(mib), func(a model.AppID) bool { return a == appN(1) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{string(appN(1)), string(appN(2))}, entries(t, w.path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if k.live < 3*mib || k.ended != 0 {
		t.Errorf("%+v: want the three MiB that are in use, and nothing else", k)
	}
}

func TestTheOutputOfTheLastFailureStaysForADay(t *testing.T) {
	w, now := testWorkDir(t), time.Now()
	endedApp(t, w, 1, 3, now, 50*time.Hour)
	for _, e := range []model.ExecutorID{0, 1} {
		if err := w.noteFailure(model.ExecutorRef{App: appN(1), Executor: e}); err != nil {
			t.Fatal(err)
		}
	}
	aged(t, w, 1, now, 50*time.Hour)
	k, err := w.prune(t.Context(), now, generous(1), nobody)
	if err != nil {
		t.Fatal(err)
	}
	if k.removed != 0 || k.freed < 3*mib {
		t.Errorf("%+v: want the data gone, and the application not", k)
	}
	app := filepath.Join(w.path, string(appN(1)))
	if diff := cmp.Diff([]string{markerFile, failureFile, "1"}, entries(t, app)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"stderr", "stdout", "stdout.1"}, entries(t, filepath.Join(app, "1"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(app); err != nil || !info.ModTime().Equal(now.Add(-50*time.Hour).Truncate(0)) && now.Sub(info.ModTime()) < 49*time.Hour {
		t.Errorf("it has become younger: %v", err)
	}
	if k, err = w.prune(t.Context(), now.Add(MaxFailureAge+time.Minute), generous(1), nobody); err != nil || k.removed != 1 {
		t.Errorf("%+v, error %v: want it gone after a day", k, err)
	}
}

func TestACrashWhileAFailureIsNotedSparesTheNewestExecutor(t *testing.T) {
	for name, left := range map[string]string{"an empty file": "", "half a file": "\x00\x00\x00", "a path": "../../etc"} {
		t.Run(name, func(t *testing.T) {
			w, now := testWorkDir(t), time.Now()
			endedApp(t, w, 1, 12, now, time.Hour)
			if err := os.WriteFile(filepath.Join(w.path, string(appN(1)), failureFile), []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := w.prune(t.Context(), now, generous(1), nobody); err != nil {
				t.Fatal(err)
			}
			got := entries(t, filepath.Join(w.path, string(appN(1))))
			if diff := cmp.Diff([]string{markerFile, failureFile, "11"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCleaningFollowsNoLinkAndTouchesNothingForeign(t *testing.T) {
	w, now := testWorkDir(t), time.Now()
	outside := t.TempDir()
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, bytes.Repeat([]byte("x"), 4*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	endedApp(t, w, 1, 1, now, time.Hour)
	dir := filepath.Join(w.path, string(appN(1)), "0")
	for link, to := range map[string]string{
		filepath.Join(dir, "link"):                          outside,
		filepath.Join(dir, "file"):                          precious,
		filepath.Join(w.path, string(appN(2))):              outside, // in the place of an application
		filepath.Join(w.path, string(appN(1)), failureFile): precious,
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{string(appN(3)), "notes"} { // no marker; no name of ours
		if err := os.Mkdir(filepath.Join(w.path, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.size(t.Context(), string(appN(1))); n > 2*mib {
		t.Errorf("%d bytes are counted, what links lead to is among them", n)
	}
	aged(t, w, 1, now, time.Hour)
	if _, err := w.prune(t.Context(), now, generous(1), nobody); err != nil {
		t.Fatal(err)
	}
	got := entries(t, w.path)
	slices.Sort(got)
	if diff := cmp.Diff([]string{string(appN(2)), string(appN(3)), "notes"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(precious); err != nil || info.Size() != 4*mib {
		t.Errorf("what a link led to is not as it was: %v", err)
	}
}

func TestARemovalThatWasInterruptedIsFinishedTheNextTime(t *testing.T) {
	w, now := testWorkDir(t), time.Now()
	endedApp(t, w, 1, 2, now, time.Hour)
	// The marker is the last to go.
	if err := os.RemoveAll(filepath.Join(w.path, string(appN(1)), "0")); err != nil {
		t.Fatal(err)
	}
	aged(t, w, 1, now, time.Hour)
	if k, err := w.prune(t.Context(), now, generous(1), nobody); err != nil || k.removed != 1 {
		t.Errorf("%+v, error %v: want the rest removed", k, err)
	}
	endedApp(t, w, 2, 2, now, time.Hour)
	if err := w.noteFailure(model.ExecutorRef{App: appN(7)}); err != nil {
		t.Errorf("an application without a directory: %v", err)
	}
	if err := w.noteFailure(model.ExecutorRef{App: "../x"}); err == nil {
		t.Error("a path out of the work directory is accepted")
	}
}
