// Package simulate says what the scheduler would do with a scenario: a file of
// steps (workers that come and go, applications, drivers) is played against the
// real replicated state and the real scheduler, without a cluster, processes or
// time. Executors and drivers run as soon as they are placed, kills take effect
// at once.
//
// It owns the format of scenarios and of their outcome. It does not own any rule
// of scheduling: those are scheduler's, fsm's and model's, explanations are
// why's. ADR 0034 says what the format leaves open and how it was settled.
//
// json.go reads JSON strictly, scenario.go makes steps of it, world.go is the
// state that they change, step.go plays one, pass.go schedules, result.go tells
// what came of it.
//
// cmd/internal/cli imports it.
package simulate
