// Command pi estimates π by throwing points at a square on the executors of a
// Hearth cluster. It is the smallest whole program: one function, many calls, one
// sum.
//
//	go build ./examples/pi && ./pi --masters m1:7070,m2:7070 --batches 1000
//
// Each batch has a random number generator of its own, seeded by the number of the
// batch. So it does not matter where a batch runs, or how often: the answer is the
// same to the last point, even if workers and masters die meanwhile.
package main
