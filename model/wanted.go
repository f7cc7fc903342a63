package model

import "math"

// CompletionsWanted is how many clean exits end the application as FINISHED;
// 0 = none, its executors are kept running. Copies of a command that are
// never restarted are done once each has ended cleanly.
func (s AppSpec) CompletionsWanted() int {
	if s.Completions == 0 && s.Kind == AppKindCommand && s.Restart == RestartNever {
		return max(s.Executors, 0)
	}
	return s.Completions
}

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
	if c := a.Spec.CompletionsWanted(); c > 0 {
		target = min(target, c-a.Completed)
	}
	return max(target, 0)
}

// CoresLimit bounds the cores that the application's executors hold together,
// KILLING ones included; 0 = no limit.
func CoresLimit(a *App, s Settings) int {
	if a.Spec.CoresMax > 0 {
		return a.Spec.CoresMax
	}
	return s.DefaultCores
}
