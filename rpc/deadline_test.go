package rpc

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

// A server whose handlers hang answers pings, so keepalive does not help: only
// the deadline of the call does.
func TestHA41EveryCallOnAServerThatNeverAnswersEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(rand.New(rand.NewSource(1)))
		lis, err := network.Host("stuck").Listen(":7070")
		if err != nil {
			t.Fatal(err)
		}
		stuck := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			<-s.Context().Done()
			return s.Context().Err()
		}))
		served := make(chan error, 1)
		go func() { served <- stuck.Serve(lis) }()
		conn, err := Dial("stuck:7070", DialConfig{Dial: network.Host("caller").Dial})
		if err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			name string
			took time.Duration
			err  error
		}
		outcomes := make(chan outcome)
		calls := 0
		for service, client := range map[string]any{"Cluster": ClusterClient(conn), "Peer": PeerClient(conn), "Worker": WorkerClient(conn)} {
			v := reflect.ValueOf(client)
			for i := range v.NumMethod() {
				calls++
				go func() {
					began := time.Now()
					err := callWithZeros(v.Method(i))
					outcomes <- outcome{service + "." + v.Type().Method(i).Name, time.Since(began), err}
				}()
			}
		}
		for range calls {
			o := <-outcomes
			if o.took > UnaryTimeout+time.Second || o.err == nil {
				t.Errorf("%s: %v after %s, want an error within %s", o.name, o.err, o.took, UnaryTimeout)
			}
		}
		if calls < 20 {
			t.Errorf("%d calls: some were not found", calls)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stuck.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// callWithZeros calls a method without a deadline in its context.
func callWithZeros(m reflect.Value) error {
	var in []reflect.Value
	for arg := range m.Type().Ins() {
		switch arg {
		case reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(context.Background()))
		case reflect.TypeFor[func(LogChunk) error]():
			in = append(in, reflect.ValueOf(func(LogChunk) error { return nil }))
		default:
			in = append(in, reflect.Zero(arg))
		}
	}
	out := m.Call(in)
	err, _ := reflect.TypeAssert[error](out[len(out)-1])
	return err
}

func TestALogThatGrowsSlowlyIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(rand.New(rand.NewSource(1)))
		lis, err := network.Host("master").Listen(":7070")
		if err != nil {
			t.Fatal(err)
		}
		const pieces = 5
		s := NewServer(ServerConfig{Listener: lis}, allServices(&fakeServices{
			readLog: func(ctx context.Context, req LogRequest, send func(LogChunk) error) error {
				pause := UnaryTimeout * 9 / 10
				if req.Follow {
					pause = 10 * UnaryTimeout
				}
				for range pieces {
					time.Sleep(pause) // virtual
					if err := errors.Join(ctx.Err(), send(LogChunk{Data: []byte("x")})); err != nil {
						return err
					}
				}
				return nil
			},
		}))
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		conn, err := Dial("master:7070", DialConfig{Dial: network.Host("caller").Dial})
		if err != nil {
			t.Fatal(err)
		}
		for _, follow := range []bool{false, true} {
			got := 0
			req := LogRequest{Ref: model.ExecutorRef{App: "app-20261130061500-0001"}, Stream: LogStdout, Follow: follow}
			err := ClusterClient(conn).ReadLog(context.Background(), req, func(LogChunk) error { got++; return nil })
			if err != nil || got != pieces {
				t.Errorf("followed %v: %d of %d pieces, %v", follow, got, pieces, err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// guards are the functions through which the generated clients may be called,
// and what each must call itself: it is what bounds the call.
var guards = map[string]string{
	"ask":        "withDeadline",
	"order":      "withDeadline",
	"receiveLog": "AfterFunc",
	"openStream": "", // a session: it lives as long as its peer answers (TestHA41...BothEnds...)

	"receiveContent":  "AfterFunc",
	"receiveReleases": "", // it waits for news; a dead connection ends it
}

// The archtest lets no other package import the generated clients.
func TestHA41NoCallIsWrittenWithoutADeadline(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	found := map[string]bool{}
	calls := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			within := calledIn(fn)
			if bound, ok := guards[fn.Name.Name]; ok {
				found[fn.Name.Name] = true
				if bound != "" && !within[bound] {
					t.Errorf("%s: %s bounds nothing: it does not call %s", set.Position(fn.Pos()), fn.Name.Name, bound)
				}
			}
			if within["Invoke"] && !within["withDeadline"] {
				t.Errorf("%s: %s invokes a method and does not call withDeadline", set.Position(fn.Pos()), fn.Name.Name)
			}
			for _, use := range clientUses(fn) {
				calls++
				if !use.guarded {
					t.Errorf("%s: a generated client is called beside the functions that bound it: the call has no deadline", set.Position(use.at))
				}
			}
		}
	}
	for name := range guards {
		if !found[name] {
			t.Errorf("%s is gone: say in this test what bounds calls now", name)
		}
	}
	if calls < 20 {
		t.Errorf("only %d uses of generated clients were found: the test looks in the wrong place", calls)
	}
}

// calledIn names the functions and methods that a function calls.
func calledIn(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			names[f.Name] = true
		case *ast.SelectorExpr:
			names[f.Sel.Name] = true
		}
		return true
	})
	return names
}

type clientUse struct {
	at      token.Pos
	guarded bool
}

// clientUses finds methods of generated clients: x.pb.Method and
// pb.NewServiceClient(...).Method.
func clientUses(fn *ast.FuncDecl) []clientUse {
	guarded := map[ast.Expr]bool{}
	var uses []clientUse
	ast.Inspect(fn, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CallExpr:
			if f, ok := e.Fun.(*ast.Ident); ok {
				if _, ok := guards[f.Name]; ok {
					for _, arg := range e.Args {
						guarded[arg] = true
					}
				}
			}
		case *ast.SelectorExpr:
			if isClient(e.X) {
				uses = append(uses, clientUse{e.Pos(), guarded[e]})
			}
		}
		return true
	})
	return uses
}

func isClient(x ast.Expr) bool {
	switch e := x.(type) {
	case *ast.SelectorExpr: // c.pb
		return e.Sel.Name == "pb"
	case *ast.CallExpr: // pb.NewClusterClient(conn)
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && strings.HasPrefix(f.Sel.Name, "New") && strings.HasSuffix(f.Sel.Name, "Client")
	}
	return false
}
