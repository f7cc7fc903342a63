package rpc

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/hashicorp/go-hclog"
)

// ServerConfig is what a server needs from its daemon.
type ServerConfig struct {
	// Listener is owned by the server from NewServer on; Run closes it.
	Listener net.Listener
	// TLS is the server's configuration; nil = plain.
	TLS    *tls.Config
	Logger hclog.Logger // nil = silent
	// Leader says who leads; nil = no forwarding, every call is served here.
	Leader LeaderInfo
	// ForwardTLS and Dial are used to reach the leader; nil = plain, TCP.
	ForwardTLS *tls.Config
	Dial       DialFunc
}

// Services are the implementations to serve; nil ones are not registered.
type Services struct {
	Cluster   ClusterService
	Workers   WorkerSessionService
	Drivers   DriverSessionService
	Peer      PeerService
	Worker    WorkerService
	Executors ExecutorHub
}

// Server serves gRPC on one listener.
type Server struct {
	cfg ServerConfig
}

// NewServer makes a server; it serves once Run is called.
func NewServer(cfg ServerConfig, services Services) *Server { return &Server{cfg: cfg} }

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// Run serves until ctx ends, then stops: contexts of streams and long polls
// end at once, other calls have StopGrace. It returns nil after such a stop.
func (s *Server) Run(ctx context.Context) error { return errNotBuilt }
