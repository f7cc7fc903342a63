// Command memraft is a ceiling that placements are measured beside: three
// replicas of hashicorp/raft in one process, over TCP, with stores in memory.
// It does nothing but replicate: no disk, no state, no clients.
//
//	memraft CLIENTS N BYTES
//
// applies N entries of BYTES bytes, CLIENTS of them under way at once, and
// prints entries per second.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	replicas   = 3
	poolSize   = 4
	rpcLimit   = 10 * time.Second
	electLimit = 20 * time.Second
	patience   = 3 * time.Second
	// maxAppend is the setting of Hearth's masters.
	maxAppend = 512
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var n [3]int
	if len(args) != len(n) {
		return errors.New("say CLIENTS N BYTES")
	}
	for i, a := range args {
		v, err := strconv.Atoi(a)
		if err != nil || v < 1 {
			return fmt.Errorf("%q is no count", a)
		}
		n[i] = v
	}
	nodes, err := start()
	if err != nil {
		return err
	}
	defer func() {
		for _, r := range nodes {
			_ = r.Shutdown().Error() // the process ends
		}
	}()
	leader, err := elected(nodes)
	if err != nil {
		return err
	}
	rate, err := apply(leader, n[0], n[1], n[2])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%.1f\n", rate)
	return err
}

func start() ([]*raft.Raft, error) {
	var nodes []*raft.Raft
	var members raft.Configuration
	quiet := hclog.NewNullLogger()
	for i := range replicas {
		trans, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, poolSize, rpcLimit, quiet)
		if err != nil {
			return nil, err
		}
		cfg := raft.DefaultConfig()
		cfg.LocalID = raft.ServerID(strconv.Itoa(i))
		cfg.Logger, cfg.BatchApplyCh, cfg.MaxAppendEntries = quiet, true, maxAppend
		// Nobody dies here: time-outs only say how busy the machine is.
		cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = patience, patience, patience
		store := raft.NewInmemStore()
		r, err := raft.NewRaft(cfg, nothing{}, store, store, raft.NewInmemSnapshotStore(), trans)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, r)
		members.Servers = append(members.Servers, raft.Server{ID: cfg.LocalID, Address: trans.LocalAddr()})
	}
	return nodes, nodes[0].BootstrapCluster(members).Error()
}

func elected(nodes []*raft.Raft) (*raft.Raft, error) {
	for deadline := time.Now().Add(electLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, r := range nodes {
			if r.State() == raft.Leader {
				return r, r.Barrier(electLimit).Error()
			}
		}
	}
	return nil, errors.New("nobody was elected")
}

func apply(r *raft.Raft, clients, total, size int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(total))
	errs := make([]error, clients)
	data := make([]byte, size)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range clients {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if errs[i] = r.Apply(data, electLimit).Error(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(begin).Seconds()
	for _, err := range errs {
		if err != nil {
			return 0, err // one of many alike
		}
	}
	return float64(total) / seconds, nil
}

// nothing is a state machine without a state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                  { return nil }
func (nothing) ApplyBatch(logs []*raft.Log) []any    { return make([]any, len(logs)) }
func (nothing) Snapshot() (raft.FSMSnapshot, error)  { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error        { return r.Close() }
func (nothing) Persist(sink raft.SnapshotSink) error { return sink.Close() }
func (nothing) Release()                             {}
