package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoMethod is the one method of the echo's server.
const echoMethod = "/hearth.bench.Echo/Stream"

// ServeEcho serves one gRPC method, a stream that sends every message back, on
// 127.0.0.1. It writes its address and ends with in.
func ServeEcho(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the echo: %w", err)
	}
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "hearth.bench.Echo",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{{StreamName: "Stream", Handler: echoStream, ServerStreams: true, ClientStreams: true}},
	}, struct{}{})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		srv.Stop()
		return errors.Join(fmt.Errorf("serve the echo: %w", err), <-served)
	}
	_, err = io.Copy(io.Discard, in) // until whoever has started us is done
	srv.Stop()
	return errors.Join(err, <-served)
}

func echoStream(_ any, s grpc.ServerStream) error {
	for {
		m := new(wrapperspb.BytesValue)
		if err := s.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// echoClient is the other end, with the process that serves it. One goroutine
// uses it.
type echoClient struct {
	proc    *process
	conn    *grpc.ClientConn
	payload []byte
}

// startEcho starts the hearth binary as the server.
func startEcho(ctx context.Context, dir string, env []string, exe string) (*echoClient, error) {
	p, err := start(dir, "echo", env, []string{exe, "bench", "echo"})
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = nil
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the echo: %w", err)
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("start the echo: %w", err)
	}
	// Not run: Wait would close the pipe under the reader.
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the echo: %w", err)
	}
	c := &echoClient{proc: p, payload: make([]byte, payloadBytes)}
	kill := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() }) // ends the read
	addr, err := bufio.NewReader(p.stdout).ReadString('\n')
	kill()
	if err == nil {
		c.conn, err = grpc.NewClient("passthrough:///"+strings.TrimSpace(addr), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("reach the echo: %w; the end of its log:\n%s", err, p.tail())
	}
	return c, nil
}

func (c *echoClient) stop() {
	if c == nil {
		return
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
	_ = c.proc.stdin.Close() // ends it
	_ = c.proc.cmd.Wait()
}

// open opens a stream that ends with done.
func (c *echoClient) open(ctx context.Context) (s grpc.ClientStream, done func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err = c.conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true}, echoMethod)
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("open the echo's stream: %w", err)
	}
	return s, cancel, nil
}

// rate sends n messages, receives as many, and returns how many came in a
// second.
func (c *echoClient) rate(ctx context.Context, n int) (float64, error) {
	s, done, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	sent := make(chan error, 1)
	begin := time.Now()
	go func() {
		for range n {
			if err := s.SendMsg(&wrapperspb.BytesValue{Value: c.payload}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for range n {
		if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
			done()
			return 0, errors.Join(fmt.Errorf("receive from the echo: %w", err), <-sent)
		}
	}
	took := time.Since(begin)
	return float64(n) / took.Seconds(), <-sent
}

// roundTrips sends n messages, each when the one before is back, and returns how
// many microseconds each took.
func (c *echoClient) roundTrips(ctx context.Context, n int) ([]float64, error) {
	s, done, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	took := make([]float64, 0, n)
	for range n {
		begin := time.Now()
		if err := s.SendMsg(&wrapperspb.BytesValue{Value: c.payload}); err != nil {
			return took, fmt.Errorf("send to the echo: %w", err)
		}
		if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
			return took, fmt.Errorf("receive from the echo: %w", err)
		}
		took = append(took, time.Since(begin).Seconds()*micros)
	}
	return took, nil
}
