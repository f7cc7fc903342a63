package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// AccessPolicy is what the owner of a server knows about people. Its methods may
// be called from many goroutines.
type AccessPolicy interface {
	// TokensRequired reports whether a person needs a token: a client's
	// certificate, or no certificate where there is no TLS, is not enough.
	TokensRequired() bool
	// Token finds the token with this hash that is accepted now. A replica that
	// may lag waits for it a moment, within ctx. The error is model.ErrNotFound,
	// or model.ErrUnavailable from a replica that cannot know.
	Token(ctx context.Context, h model.TokenHash) (model.Token, error)
	// Driver says who has submitted the driver in cluster mode of which an attempt
	// calls. name is that in its certificate (model.DriverRefName). The error is
	// model.ErrUnauthenticated unless that attempt is the present one.
	Driver(ctx context.Context, name string) (owner string, err error)
	// Note takes a line for the audit trail: a refusal, or a change that no
	// command of the log stands for. It must not block.
	Note(line model.AuditLine)
}

// Caller is who makes a call, as far as the server has verified it.
type Caller struct {
	// Machine is the role in the certificate; "" on a connection without TLS.
	Machine tlsconf.Role
	Name    string // in the certificate
	// Person is the name of a token, of a certificate, or, without either, what
	// the caller calls itself.
	Person     string
	Credential string     // the token's id, the attempt of a driver, CredentialCertificate, "" = by its own word
	Role       model.Role // what the person may do; RoleNone for programs
	From       string     // host
}

// CredentialCertificate is how a principal is known that has a certificate.
const CredentialCertificate = "certificate"

type callerKey struct{}

// CallerOf returns who makes the call that is served under ctx; the zero Caller
// outside of calls.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// CertificateOf is the name in the certificate of the caller; "" without TLS.
func CertificateOf(ctx context.Context) string { return CallerOf(ctx).Name }

var (
	errNeedsToken = fmt.Errorf("%w: this cluster wants a token: put yours into a file of mode 0600 and name that with --token-file or HEARTH_TOKEN_FILE", model.ErrUnauthenticated)
	errBadToken   = fmt.Errorf("%w: the token is not known to this cluster: it was revoked, has expired, or belongs to another one", model.ErrUnauthenticated)
	errNoDrivers  = fmt.Errorf("%w: this server knows no drivers", model.ErrUnauthenticated)
	errSpoofed    = fmt.Errorf("%w: only masters pass calls of others on", model.ErrRefused)
)

// authorize decides whether a call may be made, before anything else looks at
// it. The context it returns carries the caller.
func (s *Server) authorize(ctx context.Context, name string, req any) (context.Context, error) {
	r := s.rules[name]
	caller, err := s.identify(ctx, r)
	if err == nil {
		caller, err = s.admit(ctx, name, r, caller)
	}
	if err != nil {
		if isRefusal(err) {
			s.refused(caller, name, req, err)
		}
		return ctx, err
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// identify finds out which machine calls. A master may speak for somebody else;
// nobody else may.
func (s *Server) identify(ctx context.Context, r rule) (Caller, error) {
	md := incoming(ctx)
	caller := Caller{From: peerHost(ctx), Person: printable(firstValue(md, mdPrincipal))}
	forwarded := firstValue(md, mdForwarded) != ""
	state, encrypted := tlsState(ctx)
	if !encrypted || r.proof {
		if from := firstValue(md, mdCallerFrom); forwarded && from != "" {
			caller.From = printable(from)
		}
		return caller, nil
	}
	id, err := tlsconf.RoleOf(state)
	if err != nil {
		return caller, fmt.Errorf("%w: %w", model.ErrUnauthenticated, err)
	}
	caller.Machine, caller.Name, caller.Person, caller.Credential = id.Role, id.Name, id.Name, CredentialCertificate
	if !forwarded && !mentionsCaller(md) {
		return caller, nil
	}
	if id.Role != tlsconf.RoleMaster {
		return caller, errSpoofed
	}
	original := tlsconf.Identity{Cluster: id.Cluster, Role: tlsconf.Role(firstValue(md, mdCallerRole)), Name: firstValue(md, mdCallerName)}
	if err := original.ValidatePeer(); err != nil {
		return caller, fmt.Errorf("%w: master %s passes on a call of nobody: %w", model.ErrUnauthenticated, id.Name, err)
	}
	return Caller{
		Machine: original.Role, Name: original.Name, Person: original.Name, Credential: CredentialCertificate,
		From: printable(firstValue(md, mdCallerFrom)),
	}, nil
}

func mentionsCaller(md metadata.MD) bool {
	return firstValue(md, mdCallerRole) != "" || firstValue(md, mdCallerName) != "" || firstValue(md, mdCallerFrom) != ""
}

// admit applies the method's rule to a caller.
func (s *Server) admit(ctx context.Context, name string, r rule, c Caller) (Caller, error) {
	method := path.Base(name)
	switch {
	case !r.complete():
		return c, fmt.Errorf("%w: nothing says who may call %s", model.ErrRefused, method)
	case r.proof:
		return c, nil
	case c.Machine == tlsconf.RoleDriver:
		return s.admitDriver(ctx, method, r, c)
	case c.Machine != "" && !slices.Contains(r.machines, c.Machine):
		return c, fmt.Errorf("%w: %s is not for the certificate of a %s (%s)", model.ErrRefused, method, c.Machine, c.Name)
	case c.Machine == tlsconf.RoleWorker, r.person == model.RoleNone:
		return c, nil // a program; what it may ask is in the machines of the rule
	}
	c, err := person(ctx, s.cfg.Access, c, bearerOf(firstValue(incoming(ctx), mdAuthorization)))
	if err != nil {
		return c, err
	}
	if !c.Role.Includes(r.person) {
		return c, fmt.Errorf("%w: %s needs the role %s; %s has the role %s", model.ErrRefused, method, r.person, c.Person, c.Role)
	}
	return c, nil
}

// admitDriver is admit for an attempt of a driver in cluster mode, which acts for
// whoever has submitted it: it may read, and register and end what is its own. A
// token that it shows says nothing more: it may be anybody's on that machine.
func (s *Server) admitDriver(ctx context.Context, method string, r rule, c Caller) (Caller, error) {
	ref, err := model.ParseDriverRefName(c.Name)
	if err != nil {
		return c, fmt.Errorf("%w: %w", model.ErrUnauthenticated, err)
	}
	c.Person, c.Credential = c.Name, ref.String()
	if s.cfg.Access == nil {
		return c, errNoDrivers
	}
	owner, err := s.cfg.Access.Driver(ctx, c.Name)
	if err != nil {
		return c, err
	}
	c.Person, c.Role = owner, model.RoleSubmitter
	if !r.drivers {
		return c, fmt.Errorf("%w: %s is not for drivers in cluster mode (%s, submitted by %s): call it with a client's certificate and token (--env HEARTH_TLS_DIR=DIR)", model.ErrRefused, method, c.Credential, owner)
	}
	return c, nil
}

// person finds out what the person behind a call may do. A token says it, and
// narrows what a certificate may do. Without one, a master's certificate is an
// operator's; so is a client's, or no certificate where there is no TLS, unless
// tokens are required.
func person(ctx context.Context, policy AccessPolicy, c Caller, text string) (Caller, error) {
	if text == "" || policy == nil {
		if policy != nil && policy.TokensRequired() && c.Machine != tlsconf.RoleMaster {
			return c, errNeedsToken
		}
		c.Role = model.RoleOperator
		return c, nil
	}
	secret, err := model.ParseBearer(text)
	if err != nil {
		return c, fmt.Errorf("%w: %w", model.ErrUnauthenticated, err)
	}
	token, err := policy.Token(ctx, model.HashBearer(secret))
	switch {
	case errors.Is(err, model.ErrNotFound):
		return c, errBadToken
	case err != nil:
		return c, fmt.Errorf("look up the token: %w", err)
	}
	c.Person, c.Credential, c.Role = token.Name, string(token.ID), token.Role
	return c, nil
}

const bearerScheme = "Bearer "

// bearerOf is the token in the value of an Authorization header, not verified;
// "" = none.
func bearerOf(value string) string {
	if len(value) < len(bearerScheme) || !strings.EqualFold(value[:len(bearerScheme)], bearerScheme) {
		return value // not ours: it is refused as a token
	}
	return strings.TrimSpace(value[len(bearerScheme):])
}

// refused tells the audit trail of a call that was turned away.
func (s *Server) refused(c Caller, name string, req any, err error) {
	if s.cfg.Access == nil {
		return
	}
	line := c.line(name, req)
	line.Outcome, line.Reason = model.AuditRefused, model.TrimReason(err.Error())
	s.cfg.Access.Note(line)
}

// judged tells the audit trail how a call ended that was served here.
func (s *Server) judged(ctx context.Context, name string, m method, req any, err error) {
	switch {
	case s.cfg.Access == nil:
	case err == nil && s.rules[name].noted:
		line := CallerOf(ctx).line(name, req)
		line.Outcome = model.AuditOK
		s.cfg.Access.Note(line)
	case err != nil && isRefusal(err) && (m.changes || m.by == byLeaderStream || errors.Is(err, model.ErrUnauthenticated)):
		s.refused(CallerOf(ctx), name, req, err)
	}
}

// isRefusal tells the word of a service or of the replicated state from faults
// on the way, and from calls that another master answers.
func isRefusal(err error) bool {
	var rejected *model.RejectedError
	if errors.As(err, &rejected) {
		return rejected.Reason != model.RejectRequestExpired
	}
	return errors.Is(err, model.ErrRefused) || errors.Is(err, model.ErrUnauthenticated)
}

// line is an audit line about a call; its outcome is to be set.
func (c Caller) line(name string, req any) model.AuditLine {
	return model.AuditLine{
		Principal: c.Person, Credential: c.Credential, From: c.From,
		Action: actionOf(name), Object: printable(objectOf(req)), Count: 1,
	}
}

// actionOf is a method's name as words, such as "kill app".
func actionOf(name string) string {
	var b strings.Builder
	for i, r := range path.Base(name) {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte(' ')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	if path.Base(name) == "Session" {
		return "open session at " + strings.TrimPrefix(path.Ext(path.Dir(name)), ".")
	}
	return b.String()
}

// objectOf is the id of what a request is about.
func objectOf(req any) string {
	switch r := req.(type) {
	case interface{ GetApp() string }:
		return r.GetApp()
	case interface{ GetId() string }:
		return r.GetId()
	case interface{ GetTo() string }:
		return r.GetTo()
	case interface{ GetName() string }:
		return r.GetName()
	}
	return ""
}

func tlsState(ctx context.Context) (state tls.ConnectionState, encrypted bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return state, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	return info.State, ok
}

func peerHost(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return printable(p.Addr.String())
	}
	return printable(host)
}
