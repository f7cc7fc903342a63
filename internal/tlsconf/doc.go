// Package tlsconf builds *tls.Config values for mutual TLS from files: the
// authority's certificates, one's own certificate and its private key.
//
// It owns reading, checking and reloading those files. It does not own where
// they are named (config), who is allowed what (the roles in certificates), or
// any listener: the daemons hand its results to constructors.
//
// It imports nothing of ours. The daemons and the CLI import it.
package tlsconf
