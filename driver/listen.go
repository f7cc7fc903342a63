package driver

import (
	"context"
	"fmt"
	"net"

	"github.com/hearthd/hearth/internal/loopback"
	"github.com/hearthd/hearth/model"
)

// ReachableHost is where a driver listens for executors unless it is told: on
// loopback if all masters are there, else on the address from which the first of
// the others is reached. Errors wrap model.ErrInvalid.
func ReachableHost(ctx context.Context, masters []string) (string, error) {
	outside := ""
	for _, m := range masters {
		host, _, err := net.SplitHostPort(m)
		if err != nil {
			return "", fmt.Errorf("master %q: %w: want host:port", m, model.ErrInvalid)
		}
		if !loopback.Host(host) && outside == "" {
			outside = m
		}
	}
	if outside == "" {
		return "127.0.0.1", nil
	}
	// Connecting UDP sends nothing; it asks the kernel for the route.
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", outside)
	if err != nil {
		return "", fmt.Errorf("find the address on which executors reach this machine: %w: %w; name it with advertise", model.ErrInvalid, err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	return host, nil
}
