// Package model holds Hearth's plain entities: identifiers, states and their
// legal transitions, the records that masters replicate, the messages that
// cross between daemons, the views that people are shown, and the one rule of
// what fits where (Fits, TakeAddresses).
//
// It owns words and rules, not behaviour: no I/O, no clock, no goroutine, no
// protobuf. Records are treated as immutable once published; whoever changes
// one works on the result of its Clone method.
//
// Every package may import model; model imports none of ours.
package model
