package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startLimit bounds how long a member may take to serve.
const startLimit = 60 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say serve or client")
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "client":
		return client(args[1:], os.Stdin, os.Stdout)
	}
	return fmt.Errorf("%q: say serve or client", args[0])
}

func serve(args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	cfg := embed.NewConfig()
	clientURL := fs.String("client", "", "URL for clients")
	peerURL := fs.String("peer", "", "URL for other members")
	fs.StringVar(&cfg.Name, "name", "", "name of the member")
	fs.StringVar(&cfg.Dir, "dir", "", "data directory")
	fs.StringVar(&cfg.InitialCluster, "cluster", "", "name=peer URL of every member")
	fs.UintVar(&cfg.TickMs, "heartbeat", 0, "heartbeat interval in ms")
	fs.UintVar(&cfg.ElectionMs, "election", 0, "election time-out in ms")
	if err := fs.Parse(args); err != nil {
		return err
	}
	c, err := urls(*clientURL)
	if err != nil {
		return err
	}
	p, err := urls(*peerURL)
	if err != nil {
		return err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = c, c
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = p, p
	cfg.LogLevel = "error"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(startLimit):
		return fmt.Errorf("%s does not serve within %s", cfg.Name, startLimit)
	case <-stop:
		return nil
	}
	select {
	case err := <-e.Err():
		return err
	case <-stop:
		return nil
	}
}

func urls(s string) ([]url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return nil, err
	}
	return []url.URL{*u}, nil
}
