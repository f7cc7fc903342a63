package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// loadConns is over how many connections requests are spread, as etcd's
	// own benchmark does it.
	loadConns = 8
	loadLimit = 2 * time.Minute
)

// loader puts new keys at the leader.
type loader struct {
	conns []*clientv3.Client
	next  atomic.Int64 // number of the next key
}

// connect makes connections to the leader alone: no put is passed on by a
// follower, as an expert would have it.
func (t *timer) connect() error {
	leader, err := strconv.Atoi(t.leader())
	if err != nil {
		return errors.New("members do not agree on a leader yet")
	}
	l := &loader{}
	for range loadConns {
		c, err := dial(t.endpoints[leader])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		_, err = c.Get(ctx, "probe")
		cancel()
		if err != nil {
			return err
		}
		l.conns = append(l.conns, c)
	}
	t.load = l
	return nil
}

// run makes total puts of size bytes, batch of them in one transaction, with
// inflight requests under way at once. It answers "SECONDS P50_MS P99_MS".
func (l *loader) run(inflight, batch, total, size int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadLimit)
	defer cancel()
	value := strings.Repeat("x", size)
	var left atomic.Int64
	left.Store(int64(total / batch))
	took := make([][]float64, inflight)
	errs := make([]error, inflight)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range inflight {
		wg.Go(func() {
			c := l.conns[i%len(l.conns)]
			for left.Add(-1) >= 0 {
				one := time.Now()
				if errs[i] = l.put(ctx, c, batch, value); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(one).Seconds()*1e3)
			}
		})
	}
	wg.Wait()
	seconds := time.Since(begin).Seconds()
	for _, err := range errs {
		if err != nil {
			return "", err // one of many alike
		}
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	if len(all) == 0 {
		return "", errors.New("nothing was put")
	}
	return fmt.Sprintf("%.6f %.4f %.4f", seconds, all[len(all)/2], all[len(all)*99/100]), nil
}

func (l *loader) put(ctx context.Context, c *clientv3.Client, batch int, value string) error {
	if batch == 1 {
		_, err := c.Put(ctx, l.key(), value)
		return err
	}
	ops := make([]clientv3.Op, batch)
	for i := range ops {
		ops[i] = clientv3.OpPut(l.key(), value)
	}
	_, err := c.Txn(ctx).Then(ops...).Commit()
	return err
}

func (l *loader) key() string { return fmt.Sprintf("placement/%012d", l.next.Add(1)) }
