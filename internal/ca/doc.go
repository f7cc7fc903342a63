// Package ca is the certificate authority of a cluster, as files in a
// directory: it makes the authority, issues and renews certificates that hold
// a role, and exchanges the authority for another one in three steps during
// which every connection goes on working (ADR 0026).
//
// It owns what is in a certificate (the identity is spelled by
// internal/tlsconf), the layout of the two kinds of directories and their
// permissions. It does not verify peers (internal/tlsconf), and no daemon
// needs it: only the directory of the authority holds the key that signs.
//
// Directories and their files, all of mode 0600:
//
//	authority   ca.pem  ca-key.pem  gossip.key   (while it is exchanged: ca-next-key.pem, ca-old-key.pem)
//	node        ca.pem  cert.pem  key.pem  gossip.key (not for clients)
//
// The verb "hearth ca" and tests import it.
package ca
