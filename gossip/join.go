package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// ErrStopped is returned when gossip has ended, by Close or because it left.
var ErrStopped = errors.New("gossip has stopped")

// joinLoop contacts the seeds again and again until ctx ends: soon after the start more often, because a node that came
// back on a new address is refused at first and cannot tell. Only changes are logged.
func (g *Gossip) joinLoop(ctx context.Context) {
	delay, began := FirstRejoinDelay, time.Now()
	var report joinReport
	for {
		reached, err := g.contactSeeds(ctx)
		if ctx.Err() != nil {
			return
		}
		report.log(g, reached, err)
		// The last fifth is random, so that nodes started together do not stay in step.
		wait := delay*4/5 + time.Duration(g.cfg.Rand.Int63n(int64(delay/5)))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			delay = min(2*delay, RejoinInterval)
			if g.cfg.Tags.Role == RoleMaster && time.Since(began) < MasterRejoinFor {
				delay = min(delay, MasterRejoinDelay)
			}
		case <-g.more:
			timer.Stop()
			delay = FirstRejoinDelay
		}
	}
}

// AddSeeds adds addresses to those that are contacted again and again, such as
// the masters that a worker has learnt from its leader. They are contacted at
// once. Addresses beyond MaxSeeds are left out.
func (g *Gossip) AddSeeds(addrs []string) {
	g.seedMu.Lock()
	defer g.seedMu.Unlock()
	added := false
	for _, a := range addrs {
		if a == "" || slices.Contains(g.seeds, a) || len(g.seeds) >= MaxSeeds {
			continue
		}
		g.seeds = append(g.seeds, a)
		added = true
	}
	if added {
		select {
		case g.more <- struct{}{}:
		default:
		}
	}
}

// Seeds lists the addresses that are contacted.
func (g *Gossip) Seeds() []string {
	g.seedMu.Lock()
	defer g.seedMu.Unlock()
	return slices.Clone(g.seeds)
}

// joinReport remembers what was said about the seeds last.
type joinReport struct{ told, reachable bool }

func (r *joinReport) log(g *Gossip, reached int, err error) {
	reachable := err == nil
	if reachable && reached == 0 {
		return // there is no seed
	}
	if r.told && r.reachable == reachable {
		return
	}
	r.told, r.reachable = true, reachable
	if reachable {
		g.cfg.Logger.Info("gossip seeds reached", "node", g.cfg.NodeID, "seeds", reached)
		return
	}
	g.cfg.Logger.Warn("no gossip seed can be reached, trying on", "node", g.cfg.NodeID, "seeds", g.Seeds(), "err", err)
}

// contactSeeds syncs state with each seed, one address after the other, and returns how many it reached. It fails only
// if there was somebody to reach and nobody was.
func (g *Gossip) contactSeeds(ctx context.Context) (int, error) {
	reached, tried := 0, 0
	var errs []error
	for _, seed := range g.Seeds() {
		addrs, err := g.seedAddrs(ctx, seed)
		if err != nil {
			tried++
			errs = append(errs, err)
			continue
		}
		for _, addr := range addrs {
			if ctx.Err() != nil {
				return reached, ctx.Err()
			}
			tried++
			// The library's error names the address; old user events are of no use here.
			if _, err := g.serf.Join([]string{addr.String()}, true); err != nil {
				errs = append(errs, err)
				continue
			}
			reached++
		}
	}
	if reached == 0 && tried > 0 {
		return 0, errors.Join(errs...)
	}
	return reached, nil
}

// seedAddrs resolves a seed, leaving out this node itself.
func (g *Gossip) seedAddrs(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, fmt.Errorf("parse seed %q: %w", seed, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("parse port of seed %q: %w", seed, err)
	}
	if seed == g.advertised(g.wire) {
		return nil, nil // the own name, which may mean nothing here
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := resolve(ctx, host, g.names.lookup)
	if err != nil {
		return nil, fmt.Errorf("resolve seed %q: %w", seed, err)
	}
	own := g.wire.advertisedAddr()
	var addrs []netip.AddrPort
	for _, ip := range ips {
		if addr := netip.AddrPortFrom(ip, uint16(port)); addr != own {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}
