package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Host reports whether what is sent to, or listened on, at a host stays on this
// machine: an IP literal of the loopback network, with or without brackets, or
// localhost. Any other name is not looked up and counts as another machine: what
// it means may change between the look and the use.
func Host(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Addr is Host for a "host:port"; what is none counts as another machine.
func Addr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && Host(host)
}
