//go:build linux

package workerd

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// lastWords is a session in which the leader answers Hello with one message and ends the stream.
type lastWords struct {
	hello chan struct{}
	words []model.WorkerDown
}

func (l *lastWords) Send(model.WorkerUp) error {
	close(l.hello)
	return nil
}

func (l *lastWords) Recv() (model.WorkerDown, error) {
	<-l.hello
	if len(l.words) == 0 {
		return model.WorkerDown{}, io.EOF
	}
	w := l.words[0]
	l.words = l.words[1:]
	return w, nil
}

func (*lastWords) Close() error { return nil }

// busyOwner has time for its session a second after it is asked.
type busyOwner struct {
	hellos, rehellos int
	enough           context.CancelFunc // called at the second Hello
}

func (o *busyOwner) hello(context.Context) (model.WorkerHello, error) {
	if o.hellos++; o.hellos == 2 {
		o.enough()
	}
	return model.WorkerHello{}, nil
}

func (*busyOwner) welcome(context.Context, string, *model.WorkerWelcome, chan<- model.WorkerUp) error {
	return nil
}

func (o *busyOwner) rehello(ctx context.Context, _ *model.Rehello) error {
	pause(ctx, time.Second)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o.rehellos++
	return nil
}

func (*busyOwner) order(context.Context, model.WorkerDown) error { return nil }

func (*busyOwner) closed() {}

func (*busyOwner) foreignCluster(context.Context, model.ClusterIdentity) model.ClusterIdentity {
	return model.ClusterIdentity{}
}

// The leader says "declared dead" and ends the stream behind it. A worker whose agent is busy at that moment obeys all
// the same, and does not come back under the incarnation that is over.
func TestABusyWorkerHearsThatItWasDeclaredDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		owner := &busyOwner{enough: cancel}
		open := func(context.Context, string, bool) (rpc.WorkerSessionClient, func() error, error) {
			rehello := model.WorkerDown{Rehello: &model.Rehello{Reason: "declared dead"}}
			return &lastWords{hello: make(chan struct{}), words: []model.WorkerDown{rehello}}, func() error { return nil }, nil
		}
		finder := client.NewLeaderFinder([]string{"m1:7070"}, nil)
		newSessions(hclog.NewNullLogger(), finder, open, owner, newContact(func() time.Duration { return 0 })).run(ctx)
		if owner.hellos != 2 || owner.rehellos != 1 {
			t.Errorf("%d Hellos with %d new incarnations, want a second Hello after one", owner.hellos, owner.rehellos)
		}
	})
}
