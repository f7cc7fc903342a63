package rpc

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Served is one call that a server has answered, for metrics.
type Served struct {
	// Method is "Service/Method".
	Method string
	// Code is gRPC's, such as OK or Unavailable.
	Code string
	Took time.Duration
	// Stream: a session or the like, whose duration says nothing about speed.
	Stream bool
}

// observeUnary tells the observer of a call with its outcome.
func observeUnary(observe func(Served)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		began := time.Now()
		reply, err := handler(ctx, req)
		observe(Served{Method: methodName(info.FullMethod), Code: status.Code(err).String(), Took: time.Since(began)})
		return reply, err
	}
}

// observeStream tells the observer of a stream that has ended.
func observeStream(observe func(Served)) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		began := time.Now()
		err := handler(srv, ss)
		observe(Served{Method: methodName(info.FullMethod), Code: status.Code(err).String(), Took: time.Since(began), Stream: true})
		return err
	}
}

// methodName cuts the package off a full method name.
func methodName(full string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
