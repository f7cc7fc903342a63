package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	// askLimit bounds one question about a member.
	askLimit = time.Second
	// putEvery starts another put while none is acknowledged: a put that a
	// follower has sent to the dead leader is lost, and only times out. This
	// is how an expert would help etcd.
	putEvery = 10 * time.Millisecond
	putLimit = 2 * time.Second
	goLimit  = 30 * time.Second
	valueLen = 256
)

// timer is the client: connections to every member, and the one that is armed.
type timer struct {
	endpoints []string
	each      []*clientv3.Client
	armed     *clientv3.Client
	load      *loader
}

func dial(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

func client(args []string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("client", flag.ContinueOnError)
	list := fs.String("endpoints", "", "host:port of every member")
	if err := fs.Parse(args); err != nil {
		return err
	}
	t := &timer{endpoints: strings.Split(*list, ",")}
	for _, ep := range t.endpoints {
		c, err := dial(ep)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		t.each = append(t.each, c)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := t.obey(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (t *timer) obey(words []string) (string, error) {
	switch {
	case len(words) == 1 && words[0] == "leader":
		return t.leader(), nil
	case len(words) == 2 && words[0] == "arm":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		return "armed", t.arm(n)
	case len(words) == 1 && words[0] == "go":
		return t.put()
	case len(words) == 1 && words[0] == "connect":
		return "connected", t.connect()
	case len(words) == 5 && words[0] == "load" && t.load != nil:
		var n [4]int
		for i, w := range words[1:] {
			v, err := strconv.Atoi(w)
			if err != nil || v < 1 {
				return "", fmt.Errorf("load: %q is no count", w)
			}
			n[i] = v
		}
		return t.load.run(n[0], n[1], n[2], n[3])
	}
	return "", fmt.Errorf("unknown order %q", words)
}

// leader names the leading endpoint once all members agree and are level.
func (t *timer) leader() string {
	var ids, leaders, applied []uint64
	for n, c := range t.each {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		s, err := c.Status(ctx, t.endpoints[n])
		cancel()
		if err != nil {
			return "none"
		}
		ids, leaders, applied = append(ids, s.Header.MemberId), append(leaders, s.Leader), append(applied, s.RaftAppliedIndex)
	}
	if slices.Min(leaders) != slices.Max(leaders) || slices.Min(applied) != slices.Max(applied) {
		return "none"
	}
	if n := slices.Index(ids, leaders[0]); n >= 0 {
		return strconv.Itoa(n)
	}
	return "none"
}

func (t *timer) arm(but int) error {
	if t.armed != nil {
		if err := t.armed.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	var rest []string
	for n, ep := range t.endpoints {
		if n != but {
			rest = append(rest, ep)
		}
	}
	c, err := dial(rest...)
	if err != nil {
		return err
	}
	t.armed = c
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	for range rest { // round robin: one read at each
		if _, err := c.Get(ctx, "probe", clientv3.WithSerializable()); err != nil {
			return err
		}
	}
	return nil
}

// put returns when the first put was acknowledged.
func (t *timer) put() (string, error) {
	if t.armed == nil {
		return "", errors.New("not armed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), goLimit)
	value := strings.Repeat("x", valueLen)
	first := make(chan int64, 1)
	var attempts sync.WaitGroup
	defer attempts.Wait()
	defer cancel()
	tick := time.NewTicker(putEvery)
	defer tick.Stop()
	for {
		attempts.Go(func() {
			actx, stop := context.WithTimeout(ctx, putLimit)
			defer stop()
			if _, err := t.armed.Put(actx, "probe", value); err == nil {
				select {
				case first <- monotonic():
				default: // another was first
				}
			}
		})
		select {
		case at := <-first:
			return strconv.FormatInt(at, 10), nil
		case <-ctx.Done():
			return "", errors.New("no put was acknowledged")
		case <-tick.C:
		}
	}
}

// monotonic is the clock that all processes of the machine share.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
