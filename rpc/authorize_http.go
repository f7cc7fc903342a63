package rpc

import (
	"fmt"
	"net"
	"net/http"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// AuthorizeHTTP decides whether a request over HTTP may do what needs the role
// want, by the rules that hold for gRPC: a token in the Authorization header, a
// certificate of a client or a master, or a plain connection where tokens are
// not required. A request over TLS without certificate, which is let in only
// where the configuration says so, is a viewer's unless tokens are required. A
// nil policy knows no tokens and requires none. The error is
// model.ErrUnauthenticated or model.ErrRefused, and has been noted.
func AuthorizeHTTP(policy AccessPolicy, r *http.Request, want model.Role) (Caller, error) {
	c, err := httpCaller(policy, r)
	if err == nil && !c.Role.Includes(want) {
		err = fmt.Errorf("%w: this needs the role %s; %s has the role %s", model.ErrRefused, want, c.Person, c.Role)
	}
	if err != nil && policy != nil && isRefusal(err) {
		line := c.line(r.Method, nil)
		line.Action, line.Object = "http "+printable(r.Method), printable(r.URL.Path)
		line.Outcome, line.Reason = model.AuditRefused, model.TrimReason(err.Error())
		policy.Note(line)
	}
	return c, err
}

func httpCaller(policy AccessPolicy, r *http.Request) (Caller, error) {
	var c Caller
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c.From = printable(host)
	}
	bearer := bearerOf(r.Header.Get("Authorization"))
	if r.TLS == nil {
		return person(r.Context(), policy, c, bearer)
	}
	if len(r.TLS.PeerCertificates) == 0 {
		anonymous, err := person(r.Context(), policy, c, bearer)
		if err == nil && anonymous.Credential == "" {
			anonymous.Role = model.RoleViewer
		}
		return anonymous, err
	}
	id, err := tlsconf.RoleOf(*r.TLS)
	if err != nil {
		return c, fmt.Errorf("%w: %w", model.ErrUnauthenticated, err)
	}
	c.Machine, c.Name, c.Person, c.Credential = id.Role, id.Name, id.Name, CredentialCertificate
	if id.Role != tlsconf.RoleClient && id.Role != tlsconf.RoleMaster {
		return c, fmt.Errorf("%w: the pages are not for the certificate of a %s (%s)", model.ErrRefused, id.Role, id.Name)
	}
	return person(r.Context(), policy, c, bearer)
}
