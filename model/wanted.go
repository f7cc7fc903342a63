package model

import "math"

// Wanted returns how many live executors of a profile the application wants at
// most: its target, and no more than the completions that are still missing.
// TargetUnlimited yields math.MaxInt. A profile without a target, or an
// application that has ended, wants none. The scheduler places up to this
// number and the FSM checks each placement against it.
func Wanted(a *App, profile int) int {
	target, ok := a.Targets[profile]
	if !ok || a.State.Terminal() {
		return 0
	}
	if target < 0 {
		target = math.MaxInt
	}
	if a.Spec.Completions > 0 {
		target = min(target, a.Spec.Completions-a.Completed)
	}
	return max(target, 0)
}
