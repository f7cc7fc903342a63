package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// eachMethod visits every method of every service, as it is registered.
func eachMethod(visit func(name string, m grpc.MethodInfo)) {
	s := NewServer(ServerConfig{}, allServices(&fakeServices{}))
	defer s.grpc.Stop()
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			visit("/"+service+"/"+m.Name, m)
		}
	}
}

// call makes a call with an empty request and reports whether it was let in.
func call(ctx context.Context, t testing.TB, c *Conn, name string, m grpc.MethodInfo) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if m.IsClientStream || m.IsServerStream {
		var st grpc.ClientStream
		st, err = c.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsClientStream}, name)
		if err == nil {
			_ = st.SendMsg(&pb.Empty{}) // RecvMsg says what came of it
			if m.IsClientStream {
				_ = st.CloseSend()
			}
			err = st.RecvMsg(&pb.Empty{})
		}
	} else {
		err = c.cc.Invoke(ctx, name, &pb.Empty{}, &pb.Empty{})
	}
	err = fromStatus(err)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s was not answered: %v", name, err)
	}
	return !errors.Is(err, model.ErrUnauthenticated) && !errors.Is(err, model.ErrRefused) && !errors.Is(err, model.ErrUnavailable)
}

// Who may call what, written out: m, w, c are certificates of a master, a worker
// and a client without a token; v, s, o are clients with a token of a viewer, a
// submitter and an operator. Tokens are required; where they are not, a client
// without one is an operator, C. d is the present attempt of a driver in cluster
// mode, which needs no token. A leading "-" means that the service itself asks
// for a proof.
const policy = `
Cluster/Staleness            m w c v s o C  d
Cluster/Status               m w   v s o C  d
Cluster/Apps                 m     v s o C  d
Cluster/App                  m     v s o C  d
Cluster/WaitApp              m     v s o C  d
Cluster/Workers              m     v s o C  d
Cluster/Settings             m     v s o C  d
Cluster/RaftServers          m     v s o C
Cluster/GossipMembers        m     v s o C
Cluster/GossipKeys           m     v s o C
Cluster/ChangeGossipKeys     m         o C
Cluster/ReadLog              m     v s o C  d
Cluster/RegisterApp          m       s o C  d
Cluster/RegisterApps         m       s o C  d
Cluster/KillApp              m       s o C  d
Cluster/KillExecutors        m       s o C  d
Cluster/FinishApp            m   c v s o C  d
Cluster/SetTargets           m   c v s o C  d
Cluster/DrainWorkers         m         o C
Cluster/UndrainWorkers       m         o C
Cluster/SetSettings          m         o C
Cluster/RemoveMaster         m         o C
Cluster/TransferLeadership   m         o C
Access/CreateToken           m         o C
Access/RevokeToken           m         o C
Access/Tokens                m         o C
Access/Audit                 m         o C
Access/RecordAudit           m
Explain/Why                  m     v s o C  d
Explain/Waiting              m     v s o C  d
Drivers/SubmitDriver         m       s o C
Drivers/KillDriver           m       s o C
Drivers/KillDrivers          m       s o C
Drivers/Drivers              m     v s o C  d
Drivers/Driver               m     v s o C  d
Drivers/WaitDriver           m     v s o C  d
WorkerSessions/Session         w
DriverSessions/Session       m   c v s o C  d
Peer/Promise                 m
Peer/PeerStats               m
Peer/ReportHash              m
Peer/LeaderGone              m
Peer/Prove                   m
Worker/Identify              m
Worker/ReadLog               m
Executors/Session            m w c v s o C  d
Content/Read                 m w c v s o C  d
Content/Releases             m w c v s o C  d
`

// written reads the policy: callers by method.
func written() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(policy) {
		if f := strings.Fields(line); len(f) > 0 {
			out[f[0]] = f[1:]
		}
	}
	return out
}

// SE-04 asks for six kinds of certificate times all calls; SE-12 for all roles of
// people times all calls.
func TestSE04SE12EveryCallerMayDoWhatThePolicySaysAndNothingElse(t *testing.T) {
	t.Parallel()
	p, stranger := newPKI(t, "prod"), newPKI(t, "staging")
	server := p.issue(tlsconf.RoleMaster, "m1")
	required, optional := newPeople(t, true), newPeople(t, false)
	attempt, over := "driver-20261130061500-0003.2", "driver-20261130061500-0003.1"
	required.drivers = map[string]string{attempt: "ann"}
	strict, _ := serve(t, ServerConfig{TLS: tlsconf.Drivers(server.Server(), attempts), Access: required}, allServices(&fakeServices{}))
	open, _ := serve(t, ServerConfig{TLS: server.Server(), Access: optional}, allServices(&fakeServices{}))
	client := p.issue(tlsconf.RoleClient, "ann")
	to := func(s *Server, src *tlsconf.Source, token model.Secret) *Conn {
		return dial(t, s.Addr().String(), DialConfig{TLS: src.Client(), Token: token})
	}
	callers := map[string]*Conn{
		"m": to(strict, p.issue(tlsconf.RoleMaster, "m2"), ""),
		"w": to(strict, p.issue(tlsconf.RoleWorker, "w1"), ""),
		"c": to(strict, client, ""),
		"v": to(strict, client, bearerFor(t, "viewer")),
		"s": to(strict, client, bearerFor(t, "submitter")),
		"o": to(strict, client, bearerFor(t, "operator")),
		"C": to(open, client, ""),
		"d": to(strict, p.driver(attempt, attempt), ""),
		// Nobody, whatever the call: certificates that are not the cluster's, and
		// tokens that it does not know.
		"attempt that is over":         to(strict, p.driver(over, over), ""),
		"attempt with another secret":  to(strict, p.driver(attempt, over), ""),
		"driver where none are let in": to(open, p.driver(attempt, attempt), ""),
		"other cluster":                to(open, stranger.issue(tlsconf.RoleMaster, "m1"), ""),
		"unknown token":                to(strict, client, bearerFor(t, "eve")),
		"wrong name":                   dial(t, strings.Replace(open.Addr().String(), "127.0.0.1", "localhost", 1), DialConfig{TLS: client.Client()}),
		"plain":                        dial(t, open.Addr().String(), DialConfig{}),
	}
	want, seen := written(), map[string]bool{}
	eachMethod(func(name string, m grpc.MethodInfo) {
		short := strings.TrimPrefix(name, "/hearth.cluster.v1.")
		seen[short] = true
		allowed, ok := want[short]
		if !ok {
			t.Errorf("%s is served and the written policy says nothing of it", short)
		}
		for who, conn := range callers {
			may := slices.Contains(allowed, who)
			if who == "unknown token" { // as without one: what needs none is not refused
				may = slices.Contains(allowed, "c")
			}
			if who == "attempt that is over" { // it is let in to be told so, see tlsconf.Drivers
				may = ruleTable()[name].proof
			}
			if got := call(t.Context(), t, conn, name, m); got != may {
				t.Errorf("%s called by %s: let in: %t, want %t", short, who, got, may)
			}
		}
	})
	for short := range want {
		if !seen[short] {
			t.Errorf("the written policy speaks of %s, which is not served", short)
		}
	}
	for _, l := range slices.Concat(required.noted(), optional.noted()) {
		if l.Outcome == model.AuditRefused && (l.Reason == "" || l.From == "" || l.Principal == "") {
			t.Errorf("a refusal that does not say who, from where and why: %+v", l)
		}
		if strings.Contains(l.Reason, "hearth_") {
			t.Errorf("a refusal shows a token: %s", l.Reason)
		}
	}
}

func TestAServerWithAMethodThatHasNoRuleDoesNotServe(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{Listener: lis}, allServices(&fakeServices{}))
	s.rules = maps.Clone(s.rules)
	delete(s.rules, pb.Cluster_KillApp_FullMethodName)
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), pb.Cluster_KillApp_FullMethodName) {
		t.Fatalf("it served: %v", err)
	}
	if _, err := net.DialTimeout("tcp", lis.Addr().String(), time.Second); err == nil {
		t.Error("its listener is open still")
	}
}

func TestRulesAreForMethodsThatExist(t *testing.T) {
	t.Parallel()
	served := map[string]bool{}
	eachMethod(func(name string, _ grpc.MethodInfo) { served[name] = true })
	for name := range ruleTable() {
		if !served[name] {
			t.Errorf("%s has a rule but is not served", name)
		}
	}
}

// caught keeps the CallInfo of the last kill.
func caught() (*fakeServices, func() CallInfo) {
	var mu sync.Mutex
	var got CallInfo
	f := &fakeServices{killApp: func(_ context.Context, c CallInfo, _ model.AppID, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		got = c
		return nil
	}}
	return f, func() CallInfo {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func TestAForwardedCallKeepsItsCallerAndItsToken(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	f, last := caught()
	leader, _ := serve(t, ServerConfig{TLS: p.issue(tlsconf.RoleMaster, "m1").Server(), Leader: ready(), Access: newPeople(t, true)}, allServices(f))
	standby := p.issue(tlsconf.RoleMaster, "m2")
	via, _ := serve(t, ServerConfig{
		TLS: standby.Server(), ForwardTLS: standby.Client(), Leader: leaderAt(leader.Addr().String()), Access: newPeople(t, true),
	}, allServices(&fakeServices{}))
	client := p.issue(tlsconf.RoleClient, "laptop")
	c := ClusterClient(dial(t, via.Addr().String(), DialConfig{TLS: client.Client(), Token: bearerFor(t, "submitter"), Principal: "root"}))
	if err := c.KillApp(testContext(t), CallInfo{RequestID: "r-1"}, "app-1", ""); err != nil {
		t.Fatal(err)
	}
	h := model.HashBearer(bearerFor(t, "submitter"))
	if got, want := last(), (CallInfo{RequestID: "r-1", Principal: "submitter", Credential: string(h.ID()), From: "127.0.0.1", OwnOnly: true}); got != want {
		t.Fatalf("the leader saw %+v, want %+v", got, want)
	}
}

func TestATokenThatTheStandbyStillKnowsIsRefusedByTheLeader(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	revoked := &people{required: true}
	leader, _ := serve(t, ServerConfig{TLS: p.issue(tlsconf.RoleMaster, "m1").Server(), Leader: ready(), Access: revoked}, allServices(&fakeServices{}))
	standby := p.issue(tlsconf.RoleMaster, "m2")
	via, _ := serve(t, ServerConfig{
		TLS: standby.Server(), ForwardTLS: standby.Client(), Leader: leaderAt(leader.Addr().String()), Access: newPeople(t, true),
	}, allServices(&fakeServices{}))
	conn := dial(t, via.Addr().String(), DialConfig{TLS: p.issue(tlsconf.RoleClient, "laptop").Client(), Token: bearerFor(t, "operator")})
	if err := ClusterClient(conn).KillApp(testContext(t), CallInfo{RequestID: "r-1"}, "app-1", ""); !errors.Is(err, model.ErrUnauthenticated) {
		t.Fatalf("got %v", err)
	}
}

// Somebody who says in the metadata of his call that he speaks for an operator,
// or passes on a call, is turned away; only masters may.
func TestOnlyAMasterSpeaksForOthers(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	f, last := caught()
	access := newPeople(t, false)
	s, _ := serve(t, ServerConfig{TLS: p.issue(tlsconf.RoleMaster, "m1").Server(), Leader: ready(), Access: access}, allServices(f))
	claims := [][]string{
		{mdForwarded, "1", mdCallerRole, "client", mdCallerName, "root", mdCallerFrom, "192.0.2.1"},
		{mdForwarded, "1"},
		{mdCallerRole, "master"},
		{mdCallerName, "root"},
		{mdCallerFrom, "192.0.2.1"},
	}
	for _, role := range []tlsconf.Role{tlsconf.RoleClient, tlsconf.RoleWorker} {
		c := ClusterClient(dial(t, s.Addr().String(), DialConfig{TLS: p.issue(role, "eve").Client()}))
		for _, claim := range claims {
			ctx := metadata.AppendToOutgoingContext(testContext(t), claim...)
			if err := c.KillApp(ctx, CallInfo{RequestID: "r"}, "app-1", ""); !errors.Is(err, model.ErrRefused) {
				t.Errorf("a %s that claims %q: %v", role, claim, err)
			}
		}
		if _, err := c.Staleness(metadata.AppendToOutgoingContext(testContext(t), claims[0]...)); !errors.Is(err, model.ErrRefused) {
			t.Errorf("a %s that reads in another's name: %v", role, err)
		}
	}
	if got := last(); got != (CallInfo{}) {
		t.Fatalf("a call was carried out: %+v", got)
	}
	for _, l := range access.noted() {
		if l.Principal != "eve" || l.From != "127.0.0.1" || l.Outcome != model.AuditRefused {
			t.Errorf("the refusal names somebody else: %+v", l)
		}
	}
	master := ClusterClient(dial(t, s.Addr().String(), DialConfig{TLS: p.issue(tlsconf.RoleMaster, "m2").Client()}))
	if err := master.KillApp(metadata.AppendToOutgoingContext(testContext(t), claims[0]...), CallInfo{RequestID: "r"}, "app-1", ""); err != nil {
		t.Fatal(err)
	}
	if got := last(); got.Principal != "root" || got.From != "192.0.2.1" {
		t.Errorf("a master speaks for root: %+v", got)
	}
	// A worker's call stays a worker's, whoever passes it on.
	ctx := metadata.AppendToOutgoingContext(testContext(t), mdForwarded, "1", mdCallerRole, "worker", mdCallerName, "w1")
	if err := master.KillApp(ctx, CallInfo{RequestID: "r"}, "app-1", ""); !errors.Is(err, model.ErrRefused) {
		t.Errorf("a worker's call that a master passes on: %v", err)
	}
	if err := master.KillApp(metadata.AppendToOutgoingContext(testContext(t), mdForwarded, "1"), CallInfo{RequestID: "r"}, "app-1", ""); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("a call of nobody: %v", err)
	}
}

func TestWithoutTLSAnybodyIsAnOperatorUnlessTokensAreRequired(t *testing.T) {
	t.Parallel()
	f, last := caught()
	open, _ := serve(t, ServerConfig{Access: newPeople(t, false)}, allServices(f))
	if err := ClusterClient(dial(t, open.Addr().String(), DialConfig{Principal: "ann"})).KillApp(testContext(t), CallInfo{RequestID: "r"}, "app-1", ""); err != nil {
		t.Fatal(err)
	}
	if got := last(); got.Principal != "ann" || got.Credential != "" || got.OwnOnly {
		t.Errorf("got %+v", got)
	}
	strict, _ := serve(t, ServerConfig{Access: newPeople(t, true)}, allServices(f))
	for token, want := range map[model.Secret]error{
		"": model.ErrUnauthenticated, bearerFor(t, "eve"): model.ErrUnauthenticated, "hearth_short": model.ErrUnauthenticated,
		bearerFor(t, "viewer"): model.ErrRefused, bearerFor(t, "submitter"): nil, bearerFor(t, "operator"): nil,
	} {
		c := ClusterClient(dial(t, strict.Addr().String(), DialConfig{Principal: "ann", Token: token}))
		if err := c.KillApp(testContext(t), CallInfo{RequestID: "r"}, "app-1", ""); !errors.Is(err, want) {
			t.Errorf("with %s: %v, want %v", token, err, want)
		}
	}
	// The claim to pass a call on opens nothing there either.
	ctx := metadata.AppendToOutgoingContext(testContext(t), mdForwarded, "1", mdCallerRole, "master", mdCallerName, "m1")
	if err := ClusterClient(dial(t, strict.Addr().String(), DialConfig{})).KillApp(ctx, CallInfo{RequestID: "r"}, "app-1", ""); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("a claim without a certificate: %v", err)
	}
}

func TestATokenIsNotSentInTheClearToAnotherMachine(t *testing.T) {
	t.Parallel()
	token := bearerFor(t, "operator")
	for _, addr := range []string{"192.0.2.1:7070", "master.example:7070", "[2001:db8::1]:7070"} {
		if c, err := Dial(addr, DialConfig{Token: token}); !errors.Is(err, model.ErrRefused) {
			t.Errorf("dial %s: %v", addr, err)
			_ = c.Close()
		} else if strings.Contains(err.Error(), token.Reveal()) {
			t.Error("the error shows the token")
		}
	}
	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1"} {
		dial(t, addr, DialConfig{Token: token})
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	info := DialConfig{Token: bearerFor(t, "operator")}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if s := fmt.Sprintf(format, info); strings.Contains(s, info.Token.Reveal()) || strings.Contains(s, fmt.Sprintf("%x", info.Token.Reveal())) {
			t.Errorf("%s shows it: %s", format, s)
		}
	}
}

func TestWhatServicesRefuseIsNotedToo(t *testing.T) {
	t.Parallel()
	access := newPeople(t, false)
	verdicts := map[string]error{
		"app-1": &model.RejectedError{Reason: model.RejectNotOwner, Text: "it is bob's"},
		"app-2": model.ErrUnavailable,
		"app-3": nil,
	}
	f := &fakeServices{killApp: func(_ context.Context, _ CallInfo, a model.AppID, _ string) error { return verdicts[string(a)] }}
	s, _ := serve(t, ServerConfig{Access: access}, allServices(f))
	c := ClusterClient(dial(t, s.Addr().String(), DialConfig{Principal: "ann"}))
	for _, app := range []model.AppID{"app-1", "app-2", "app-3"} {
		_ = c.KillApp(testContext(t), CallInfo{RequestID: "r"}, app, "") // the lines tell
	}
	if err := c.TransferLeadership(testContext(t), "m2"); err != nil {
		t.Fatal(err)
	}
	want := []model.AuditLine{
		{Principal: "ann", From: "127.0.0.1", Action: "kill app", Object: "app-1", Outcome: model.AuditRefused, Reason: "it is bob's (NOT_OWNER)", Count: 1},
		{From: "127.0.0.1", Action: "transfer leadership", Object: "m2", Outcome: model.AuditOK, Count: 1},
	}
	if got := access.noted(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPagesAskForTheSameProofsAsCalls(t *testing.T) {
	t.Parallel()
	strict, open := newPeople(t, true), newPeople(t, false)
	ask := func(policy AccessPolicy, bearer model.Secret, want model.Role) error {
		r := httptest.NewRequest(http.MethodGet, "/json", nil)
		if bearer != "" {
			r.Header.Set("Authorization", "bearer "+bearer.Reveal())
		}
		_, err := AuthorizeHTTP(policy, r, want)
		return err
	}
	if err := ask(open, "", model.RoleOperator); err != nil {
		t.Errorf("an open page: %v", err)
	}
	if err := ask(nil, "", model.RoleOperator); err != nil {
		t.Errorf("a page without any policy: %v", err)
	}
	if err := ask(strict, "", model.RoleViewer); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("without a token: %v", err)
	}
	if err := ask(strict, bearerFor(t, "viewer"), model.RoleViewer); err != nil {
		t.Errorf("a viewer that reads: %v", err)
	}
	if err := ask(open, bearerFor(t, "viewer"), model.RoleOperator); !errors.Is(err, model.ErrRefused) {
		t.Errorf("a viewer that acts: %v", err)
	}
	if got := strict.noted(); len(got) != 1 || got[0].Action != "http GET" || got[0].Object != "/json" {
		t.Errorf("noted: %+v", got)
	}
}
