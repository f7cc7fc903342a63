// Package priority asks the system to prefer this process when the machine is
// out of breath (ADR 0023).
//
// It owns the nice value of the process's own threads. Children inherit it, so
// it is for daemons that start none.
//
// Importers: cmd/internal/cli.
package priority
