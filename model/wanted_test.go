package model

import "testing"

func TestWanted(t *testing.T) {
	t.Parallel()
	app := func(target, completions, completed int) *App {
		return &App{
			State: AppWaiting, Completed: completed,
			Spec:    AppSpec{Kind: AppKindCommand, Completions: completions},
			Targets: map[int]int{ProfileDefault: target},
		}
	}
	ended := app(5, 0, 0)
	ended.State = AppKilled
	for _, tc := range []struct {
		name    string
		app     *App
		profile int
		want    int
	}{
		{"a plain target is what is wanted", app(5, 0, 0), 0, 5},
		{"an unlimited target is a number that nothing reaches", app(TargetUnlimited, 0, 0), 0, MaxExecutors},
		{"completions that are missing bound the target", app(5, 10, 7), 0, 3},
		{"a target below the missing completions stays", app(2, 10, 7), 0, 2},
		{"completions bound an unlimited target", app(TargetUnlimited, 4, 1), 0, 3},
		{"nothing is wanted once all completions are in", app(5, 10, 10), 0, 0},
		{"more completions than asked for want nothing", app(5, 10, 12), 0, 0},
		{"a profile without a target wants nothing", app(5, 0, 0), 7, 0},
		{"an ended application wants nothing", ended, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := Wanted(tc.app, tc.profile); got != tc.want {
				t.Errorf("Wanted = %d, want %d", got, tc.want)
			}
		})
	}
}
