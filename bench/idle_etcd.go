package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// idleOverEtcd is the target of our processor time, and of our memory, over etcd's.
const idleOverEtcd = 1

// idlePeers are the settings of etcd that empty masters are measured beside: those
// that it has, and those with which it notices a leader's silence as soon as we do.
func idlePeers() []idlePeer {
	return []idlePeer{
		{"etcd as it comes (100 ms, 1 s)", etcdDefaults()},
		{"etcd with our times (45 ms, 300 ms)", etcdTimes{heartbeat: 45, election: 300}}, // ours: 30 to 60 ms
	}
}

type idlePeer struct {
	name  string
	times etcdTimes
}

// measurePeers measures the empty masters beside idle members of etcd.
func (b *idle) measurePeers(ctx context.Context, dir string) error {
	for _, peer := range idlePeers() {
		cpu, memory := "empty masters over "+peer.name, "resident, empty masters over "+peer.name
		if b.cfg.Etcd == "" {
			b.report.PeerMissing(cpu, idleOverEtcd, "etcd")
			b.report.PeerMissing(memory, idleOverEtcd, "etcd")
			continue
		}
		used, rss, err := b.beside(ctx, peer.times, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", peer.name, err)
		}
		b.report.Figure(peer.name+", three members", "% of a core", used.B)
		b.report.Figure(peer.name+", resident memory of the largest member", "MB", rss.B)
		b.report.AtMost(cpu, "", used.Ratio(), idleOverEtcd)
		b.report.AtMost(memory, "", rss.Ratio(), idleOverEtcd)
	}
	return nil
}

// beside measures masters and members at the same time: processor time in percent of a core in each slice, and what the
// largest process of each side has in memory in MB, ours first.
func (b *idle) beside(ctx context.Context, times etcdTimes, dir string) (used, rss Pairs, err error) {
	b.say("starting three members of etcd")
	dir = filepath.Join(dir, fmt.Sprintf("etcd-%d", times.heartbeat))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return used, rss, fmt.Errorf("make a directory: %w", err)
	}
	e, err := startEtcd(ctx, b.cfg.Etcd, times, b.cfg.Env, dir)
	defer e.stop()
	if err != nil {
		return used, rss, err
	}
	e.leave()
	if err := pause(ctx, idleSettle); err != nil {
		return used, rss, err
	}
	sides := [][]*process{b.cluster.procs, e.procs}
	each, _, err := b.slices(ctx, append(append([]*process{}, sides[0]...), sides[1]...))
	if err != nil {
		return used, rss, err
	}
	for i := range b.cfg.Slices {
		used.A, used.B = append(used.A, sumAt(each[:masters], i)), append(used.B, sumAt(each[masters:], i))
	}
	var most [2]float64
	for i, procs := range sides {
		if most[i], err = mostResidentMB(procs); err != nil {
			return used, rss, err
		}
	}
	return used, Pairs{A: most[:1], B: most[1:]}, nil
}

// sumAt adds up one slice of several processes.
func sumAt(used [][]float64, slice int) (sum float64) {
	for _, u := range used {
		sum += u[slice]
	}
	return sum
}
