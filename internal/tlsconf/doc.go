// Package tlsconf builds *tls.Config values for mutual TLS from files: the
// authority's certificates, one's own certificate and its private key.
//
// It owns reading, checking and reloading those files, the identity that a
// certificate holds (cluster, role, name; ADR 0026), the verification of a peer
// with an error for each way in which it can fail, and the narrowing of a config
// to roles. It does not own where files are named (config), how certificates are
// made (internal/ca), which method a role may call (rpc), or any listener: the
// daemons hand its results to constructors.
//
// It imports nothing of ours. Everything that listens or dials imports it.
package tlsconf
