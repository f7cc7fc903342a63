// Package config holds the configuration of each Hearth process: defaults, the
// strict HCL file, HEARTH_CONFIG_* environment variables and flags, in rising
// priority, and one validation that reports every problem at once with its
// source, field, value and rule.
//
// It owns names, defaults and rules of settings. It does not own what they do:
// it opens no listener, resolves no name and reads no certificate (see
// internal/tlsconf). Settings of the scheduler appear here as the seeds of a new
// cluster only; a running cluster keeps them in its replicated state.
//
// It imports model alone. The daemons, the client side and the CLI import it.
package config
