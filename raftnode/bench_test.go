package raftnode

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// benchCluster starts three replicas over loopback on real files and returns
// the leader.
func benchCluster(b *testing.B, store string) *Node {
	b.Helper()
	var nodes []*Node
	var servers []Server
	for i := range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		id := model.MasterID("m" + strconv.Itoa(i+1))
		log, _ := newLog(b)
		n, err := Open(Config{ID: id, DataDir: b.TempDir(), Preset: PresetRig, LogStore: store}, Deps{
			FSM: fsm.New(), Stream: NewTCPStream(listener, "", StreamTLS{}), Identity: ourCluster(), Logger: log,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.Close() })
		nodes = append(nodes, n)
		servers = append(servers, Server{ID: id, Addr: listener.Addr().String()})
	}
	if err := nodes[0].Bootstrap(servers); err != nil {
		b.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for {
		for _, n := range nodes {
			if _, leading := n.Belief(); leading && n.Barrier(context.Background()) == nil {
				return n
			}
		}
		select {
		case <-ticker.C:
		case <-deadline:
			b.Fatal("no leader within 20 s")
		}
	}
}

// BenchmarkPropose measures durable, applied commands of about 256 bytes on
// three replicas that share one disk.
func BenchmarkPropose(b *testing.B) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		for _, proposers := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("store=%s/proposers=%d", store, proposers), func(b *testing.B) {
				lead := benchCluster(b, store)
				first := lead.LastIndex()
				var next atomic.Int64
				var wait sync.WaitGroup
				b.ResetTimer()
				for range proposers {
					wait.Go(func() {
						for {
							i := next.Add(1)
							if i > int64(b.N) {
								return
							}
							cmd := command(strconv.FormatInt(i, 10))
							cmd.Principal = strings.Repeat("x", 200)
							if _, err := lead.Propose(context.Background(), cmd); err != nil {
								b.Errorf("propose: %v", err)
								return
							}
						}
					})
				}
				wait.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "applies/s")
				b.ReportMetric(float64(b.N)/float64(max(1, lead.LastIndex()-first)), "commands/entry")
			})
		}
	}
}
