// Package client is the Go client of a Hearth cluster: it finds the leader,
// follows hints, rotates over the masters when one fails, and repeats a
// mutating call under one request id until its outcome is known. It also holds
// the caller's end of a driver session.
//
// It owns no wire format (package rpc) and no policy of any verb.
//
// Importers: driver, executor, workerd, web, spark, demo, bench, the CLI and
// tests.
package client
