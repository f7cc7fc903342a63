package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	pb "github.com/hearthd/hearth/proto/cluster/v1"
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
	// Access says what people may do; nil = there are no tokens.
	Access AccessPolicy
	// ForwardTLS and Dial are used to reach the leader; nil = plain, TCP.
	ForwardTLS *tls.Config
	Dial       DialFunc
	// Peers returns a connection to another master that is kept open, so that a
	// call is passed on to a new leader without dialling it first. It stays its
	// giver's. nil = the server dials.
	Peers func(addr string) (*Conn, error)
	// Observe is told of each call that was answered; it must be quick. nil =
	// nobody is.
	Observe func(Served)
}

// Services are the implementations to serve; nil ones are not registered.
type Services struct {
	Cluster   ClusterService
	Workers   WorkerSessionService
	Drivers   DriverSessionService
	Peer      PeerService
	Worker    WorkerService
	Executors ExecutorHub
	Content   ContentService
	Access    AccessService
	Explain   ExplainService
	// Cluster-mode drivers; Drivers above is the sessions of any driver.
	Submitted DriversService
}

// Server serves gRPC on one listener.
type Server struct {
	cfg     ServerConfig
	log     hclog.Logger
	grpc    *grpc.Server
	methods map[string]method
	rules   map[string]rule
	fwd     *forwarder
	held    holds
	// executors serves what comes over direct, the streams that are not gRPC's.
	executors ExecutorHub
	direct    sessions

	stopping context.Context //nolint:containedctx // not a call's: ends when Run begins to stop
	stop     context.CancelFunc
}

// NewServer makes a server; it serves once Run is called.
func NewServer(cfg ServerConfig, services Services) *Server {
	s := &Server{cfg: cfg, log: cfg.Logger, methods: methodTable(), rules: ruleTable()}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.fwd = &forwarder{cfg: DialConfig{TLS: cfg.ForwardTLS, Dial: cfg.Dial}, conns: cfg.Peers}
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxHeaderListSize(MaxHeaderBytes),
		grpc.MaxConcurrentStreams(MaxStreamsPerConn),
		grpc.ConnectionTimeout(HandshakeTimeout),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: KeepaliveMinimum, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: KeepaliveInterval, Timeout: KeepaliveTimeout}),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
	}
	if services.Workers != nil {
		opts = append(opts, grpc.ReadBufferSize(sessionReadBuffer))
	}
	if cfg.Observe != nil { // chained in front: it sees what callers see
		opts = append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(observeUnary(cfg.Observe)), grpc.ChainStreamInterceptor(observeStream(cfg.Observe))}, opts...)
	}
	switch {
	case cfg.TLS != nil && services.Executors != nil:
		direct := cfg.TLS.Clone()
		direct.NextProtos = []string{executorProtocol}
		opts = append(opts, grpc.Creds(directCredentials{credentials.NewTLS(direct), s}))
	case cfg.TLS != nil:
		opts = append(opts, grpc.Creds(credentialsOf(cfg.TLS, nil)))
	}
	s.executors = services.Executors
	s.grpc = grpc.NewServer(opts...)
	s.register(services)
	return s
}

func (s *Server) register(v Services) {
	if v.Cluster != nil {
		pb.RegisterClusterServer(s.grpc, &clusterServer{svc: v.Cluster})
	}
	if v.Workers != nil {
		pb.RegisterWorkerSessionsServer(s.grpc, &workerSessionsServer{svc: v.Workers})
	}
	if v.Drivers != nil {
		pb.RegisterDriverSessionsServer(s.grpc, &driverSessionsServer{svc: v.Drivers})
	}
	if v.Peer != nil {
		pb.RegisterPeerServer(s.grpc, &peerServer{svc: v.Peer})
	}
	if v.Worker != nil {
		pb.RegisterWorkerServer(s.grpc, &workerServer{svc: v.Worker})
	}
	if v.Executors != nil {
		pb.RegisterExecutorsServer(s.grpc, &executorsServer{svc: v.Executors})
	}
	if v.Submitted != nil {
		pb.RegisterDriversServer(s.grpc, &driversServer{svc: v.Submitted})
	}
	if v.Access != nil {
		pb.RegisterAccessServer(s.grpc, &accessServer{svc: v.Access})
	}
	if v.Explain != nil {
		pb.RegisterExplainServer(s.grpc, &explainServer{svc: v.Explain})
	}
	if v.Content != nil {
		pb.RegisterContentServer(s.grpc, &contentServer{svc: v.Content})
	}
}

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// Run serves until ctx ends, then stops: contexts of streams and long polls
// end at once, other calls have StopGrace. It returns nil after such a stop, and
// an error at once for a method without a rule of who may call it. Call it once.
func (s *Server) Run(ctx context.Context) error {
	defer s.fwd.close()
	defer s.direct.close()
	defer s.stop()
	if err := unruled(s.grpc.GetServiceInfo(), s.rules); err != nil {
		return errors.Join(fmt.Errorf("serve gRPC on %s: %w", s.Addr(), err), s.cfg.Listener.Close())
	}
	if s.cfg.Leader != nil {
		var follower sync.WaitGroup
		fctx, cancel := context.WithCancel(ctx)
		follower.Go(func() { s.followLeader(fctx) })
		defer follower.Wait()
		defer cancel()
	}
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.cfg.Listener) }()
	select {
	case err := <-served:
		s.grpc.Stop()
		return fmt.Errorf("serve gRPC on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	s.stop()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	t := time.NewTimer(StopGrace)
	defer t.Stop()
	select {
	case <-graceful:
	case <-t.C:
		s.log.Debug("calls in flight did not end in time", "grace", StopGrace)
		s.grpc.Stop()
		<-graceful
	}
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", s.Addr(), err)
	}
	return nil
}
