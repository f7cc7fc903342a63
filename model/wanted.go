package model

// CompletionsWanted is how many clean exits end the application as FINISHED;
// 0 = none, its executors are kept running. Copies that are never restarted
// are done once each has ended cleanly.
func (s AppSpec) CompletionsWanted() int {
	if s.Kind != AppKindCommand {
		return 0
	}
	if s.Completions == 0 && s.Restart == RestartNever && s.Executors > 0 {
		return s.Executors
	}
	return s.Completions
}

// Wanted is how many live executors of a profile the application should have
// now: its target, but no more than there are completions left. It is never
// negative; MaxExecutors stands for "as many as fit". The scheduler places up
// to it and the FSM refuses what lies above it.
func Wanted(a *App, profile int) int {
	target, ok := a.Targets[profile]
	if !ok || a.State.Terminal() {
		return 0
	}
	if target == TargetUnlimited {
		target = MaxExecutors
	}
	if c := a.Spec.CompletionsWanted(); c > 0 && profile == ProfileDefault {
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
