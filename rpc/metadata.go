package rpc

import (
	"context"
	"strconv"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/hearthd/hearth/model"
)

// Metadata of a call.
const (
	mdRequestID = "hearth-request-id"
	mdBase      = "hearth-base"
	mdPrincipal = "hearth-principal"
	// mdForwarded marks a call that a standby passed on: it is not passed on
	// again.
	mdForwarded = "hearth-forwarded"
	// mdProxy asks a standby to pass a stream on to the leader.
	mdProxy = "hearth-proxy"
)

func firstValue(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func incoming(ctx context.Context) metadata.MD {
	md, _ := metadata.FromIncomingContext(ctx)
	return md
}

// withCall puts what travels beside a mutating call into its metadata.
func withCall(ctx context.Context, c *Conn, call CallInfo) context.Context {
	principal := call.Principal
	if principal == "" {
		principal = c.principal
	}
	kv := []string{mdRequestID, call.RequestID, mdBase, strconv.FormatUint(call.Base, 10)}
	if principal != "" {
		kv = append(kv, mdPrincipal, printable(principal))
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// printable keeps a header value within what gRPC accepts: printable ASCII.
func printable(s string) string {
	out := []byte(s)
	for i, b := range out {
		if b < ' ' || b > '~' {
			out[i] = '?'
		}
	}
	if len(out) > model.MaxNameBytes {
		out = out[:model.MaxNameBytes]
	}
	return string(out)
}

// callInfo reads what travels beside a call. The principal is the name in the
// caller's certificate, if it has one; a forwarded call keeps the name that the
// standby saw.
func callInfo(ctx context.Context) CallInfo {
	md := incoming(ctx)
	base, _ := strconv.ParseUint(firstValue(md, mdBase), 10, 64)
	info := CallInfo{
		RequestID: firstValue(md, mdRequestID),
		Base:      base,
		Principal: printable(firstValue(md, mdPrincipal)),
	}
	if name := certificateName(ctx); name != "" && firstValue(md, mdForwarded) == "" {
		info.Principal = printable(name)
	}
	return info
}

func certificateName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	// The chain is verified by tlsconf in a callback, which leaves
	// VerifiedChains empty: a connection that got here was verified.
	if !ok || len(info.State.PeerCertificates) == 0 {
		return ""
	}
	return info.State.PeerCertificates[0].Subject.CommonName
}

// forwardContext is the outgoing context of a call that is passed on.
func forwardContext(ctx context.Context) context.Context {
	out := metadata.MD{mdForwarded: []string{"1"}}
	md := incoming(ctx)
	for _, key := range []string{mdRequestID, mdBase} {
		if v := md.Get(key); len(v) > 0 {
			out[key] = v[:1]
		}
	}
	if p := callInfo(ctx).Principal; p != "" {
		out[mdPrincipal] = []string{p}
	}
	return metadata.NewOutgoingContext(ctx, out)
}
