package rpc

import (
	"context"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/hearthd/hearth/model"
)

// Metadata of a call.
const (
	mdRequestID = "hearth-request-id"
	mdBase      = "hearth-base"
	mdPrincipal = "hearth-principal"
	// mdAuthorization carries a token, as in HTTP. A call that is passed on keeps
	// it: the leader looks at it again.
	mdAuthorization = "authorization"
	// mdCallerRole, mdCallerName and mdCallerFrom say who made a call that a
	// master passes on. They are believed from a master's certificate only.
	mdCallerRole = "hearth-caller-role"
	mdCallerName = "hearth-caller-name"
	mdCallerFrom = "hearth-caller-from"
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

// callInfo reads what travels beside a call, and who makes it.
func callInfo(ctx context.Context) CallInfo {
	md, caller := incoming(ctx), CallerOf(ctx)
	base, _ := strconv.ParseUint(firstValue(md, mdBase), 10, 64)
	return CallInfo{
		RequestID: firstValue(md, mdRequestID), Base: base,
		Principal: printable(caller.Person), Credential: caller.Credential, From: caller.From,
		OwnOnly: caller.Role == model.RoleSubmitter,
	}
}

// forwardContext is the outgoing context of a call that is passed on.
func forwardContext(ctx context.Context) context.Context {
	out := metadata.MD{mdForwarded: []string{"1"}}
	md := incoming(ctx)
	for _, key := range []string{mdRequestID, mdBase, mdAuthorization} {
		if v := md.Get(key); len(v) > 0 {
			out[key] = v[:1]
		}
	}
	caller := CallerOf(ctx)
	for key, v := range map[string]string{
		mdPrincipal: printable(caller.Person), mdCallerRole: string(caller.Machine),
		mdCallerName: caller.Name, mdCallerFrom: caller.From,
	} {
		if v != "" {
			out[key] = []string{v}
		}
	}
	return metadata.NewOutgoingContext(ctx, out)
}
