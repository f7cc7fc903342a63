// Package loopback knows which hosts are this machine and no other. Whether
// something may go unencrypted, or without a token, depends on it, so there is
// one meaning for all.
package loopback
