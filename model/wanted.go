package model

import "cmp"

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

// CoresCounted are the cores that count against the limits of the application:
// what its executors hold but for those that are leaving (spark-standalone 1.O:
// a decommissioned executor is dropped from its application).
func CoresCounted(a *App) int { return a.CoresGranted - a.CoresLeaving }

// AppUser is whose the application is, for caps per user: who submitted it, or
// where the cluster does not know that, whom the submitter named.
func AppUser(a *App) string { return cmp.Or(a.Principal, a.Spec.User) }

// GangNeeds is how many executors of the default profile must be placed
// together next: those that are missing of the application's gang. 0 = any
// number will do.
func GangNeeds(a *App) int {
	if a.Spec.MinExecutors <= 1 {
		return 0
	}
	return max(min(a.Spec.MinExecutors, Wanted(a, ProfileDefault))-a.Live[ProfileDefault], 0)
}

// HasLabels reports whether a worker has all of the labels, with these values.
func HasLabels(w *Worker, labels map[string]string) bool {
	return len(labels) == 0 || CountLabels(w, labels) == len(labels)
}

// CountLabels is how many of the labels a worker has, with these values.
func CountLabels(w *Worker, labels map[string]string) int {
	n := 0
	for k, v := range labels {
		if have, ok := w.Offer.Labels[k]; ok && have == v {
			n++
		}
	}
	return n
}
