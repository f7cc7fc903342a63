// Command sweep runs a simulation once for each point of a grid of parameters, on
// the executors of a Hearth cluster, and writes a table: how an epidemic goes (the
// SIR model, by Euler's method) for every pair of infection and recovery rate.
//
//	go build ./examples/sweep && ./sweep --masters m1:7070 --steps 20 --csv out.csv
//
// It shows what a long sweep needs: results that are written as they come, calls
// that are tried again and bounded in time, and a number of executors that follows
// the load (--min-executors, --max-executors).
package main
