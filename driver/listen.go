package driver

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/loopback"
	"github.com/hearthd/hearth/model"
)

// Hosts are the host on which a driver serves executors and the one under which
// they come, "" if it is the same: as it was told, else as its worker says in
// env, else see ReachableHost.
func Hosts(ctx context.Context, bind, advertise string, env, masters []string) (serve, announce string, err error) {
	if bind != "" {
		return bind, advertise, nil
	}
	for _, kv := range env { // the last entry counts
		if v, ok := strings.CutPrefix(kv, config.EnvDriverBind+"="); ok {
			bind = v
		}
		if v, ok := strings.CutPrefix(kv, config.EnvDriverAdvertise+"="); ok && advertise == "" {
			announce = v
		}
	}
	if advertise != "" {
		announce = advertise
	}
	if bind != "" && announce != "" {
		return bind, announce, nil
	}
	serve, err = ReachableHost(ctx, masters)
	return serve, advertise, err
}

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
