package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxPort      = 65535
	maxHost      = 253 // RFC 1035, without the final dot
	maxAddresses = 64  // in masters or join
)

// HostPort returns text as "host:port", with defaultPort when it names none. It
// takes names, IPv4 and IPv6 literals, the latter with or without brackets, and
// resolves nothing.
func HostPort(text string, defaultPort int) (string, error) {
	s := strings.TrimSpace(text)
	host, port := s, strconv.Itoa(defaultPort)
	if _, err := netip.ParseAddr(s); err != nil && (strings.Count(s, ":") == 1 || strings.Contains(s, "]:")) {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", fmt.Errorf("must be host or host:port, %q is neither", clip(s))
		}
	}
	host = unbracket(host)
	if err := checkHost(host); err != nil {
		return "", err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > maxPort {
		return "", fmt.Errorf("the port of %q must be between 1 and %d", clip(s), maxPort)
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

// unbracket removes the brackets of an IPv6 literal.
func unbracket(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok && strings.Contains(inner, ":") {
			return inner
		}
	}
	return host
}

// checkHost accepts an IP literal or what can be a host name; whether the name
// exists is found out when it is dialled.
func checkHost(host string) error {
	if host == "" {
		return fmt.Errorf("must name a host")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if len(host) > maxHost {
		return fmt.Errorf("must be a host of at most %d bytes", maxHost)
	}
	for _, r := range host {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		digit := r >= '0' && r <= '9'
		if !letter && !digit && r != '-' && r != '.' && r != '_' {
			return fmt.Errorf("must be a host name or an IP address, %q is neither", clip(host))
		}
	}
	return nil
}

// isUnspecified reports whether host means all interfaces.
func isUnspecified(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsUnspecified()
}
