package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

const (
	// MaxContentChunk bounds a piece of content.
	MaxContentChunk = 256 << 10
	// MaxContentHeld bounds the digests in one message.
	MaxContentHeld = 1024
)

// errContentStalled ends a transfer on which nothing comes.
var errContentStalled = fmt.Errorf("%w: no content came for %s", model.ErrUnavailable, UnaryTimeout)

// ContentRequest asks a driver for content by its digest. It is made for an
// executor, by that or by the worker that is about to start it.
type ContentRequest struct {
	Executor model.ExecutorRef
	Secret   model.Secret // proves the executor to its driver
	SHA256   string
	Offset   int64
}

// ContentChunk is a piece of content, at most MaxContentChunk bytes.
type ContentChunk struct {
	Bytes int64 // of the whole content
	Data  []byte
}

// ContentHeld says which content an executor has.
type ContentHeld struct {
	Executor model.ExecutorRef
	Secret   model.Secret
	SHA256   []string // at most MaxContentHeld
}

// ContentService is what a driver offers beside the stream of its executors
// (ADR 0024). Both calls block until they end and check the executor's secret
// first.
type ContentService interface {
	// ReadContent sends a content from an offset to its end. A digest that the
	// driver does not have is model.ErrNotFound.
	ReadContent(ctx context.Context, req ContentRequest, send func(ContentChunk) error) error
	// ContentReleases sends the digests that are not needed any more, first
	// those of the request that are not, until ctx ends.
	ContentReleases(ctx context.Context, held ContentHeld, send func(digests []string) error) error
}

// contentServer serves a ContentService.
type contentServer struct {
	pb.UnimplementedContentServer
	svc ContentService
}

// Read serves ContentService.ReadContent.
func (s *contentServer) Read(in *pb.ContentRequest, ss grpc.ServerStreamingServer[pb.ContentChunk]) error {
	req := ContentRequest{
		Executor: refFromWire(in.GetExecutor()), Secret: model.Secret(in.GetSecret()), SHA256: in.GetSha256(), Offset: in.GetOffset(),
	}
	if err := model.ValidDigest(req.SHA256); err != nil {
		return fmt.Errorf("read content: %w", err)
	}
	if req.Offset < 0 {
		return fmt.Errorf("read content: %w: offset %d", model.ErrInvalid, req.Offset)
	}
	return s.svc.ReadContent(ss.Context(), req, func(c ContentChunk) error {
		return ss.Send(&pb.ContentChunk{Bytes: c.Bytes, Data: c.Data})
	})
}

// Releases serves ContentService.ContentReleases.
func (s *contentServer) Releases(in *pb.ContentHeld, ss grpc.ServerStreamingServer[pb.ContentReleased]) error {
	held := ContentHeld{Executor: refFromWire(in.GetExecutor()), Secret: model.Secret(in.GetSecret()), SHA256: in.GetSha256()}
	if len(held.SHA256) > MaxContentHeld {
		return fmt.Errorf("watch content: %w: %d digests, the limit is %d", model.ErrTooLarge, len(held.SHA256), MaxContentHeld)
	}
	return s.svc.ContentReleases(ss.Context(), held, func(digests []string) error {
		return ss.Send(&pb.ContentReleased{Sha256: digests})
	})
}

// contentClient calls a ContentService.
type contentClient struct{ pb pb.ContentClient }

var _ ContentService = (*contentClient)(nil)

// ContentClient calls a driver. Safe for concurrent use.
func ContentClient(c *Conn) ContentService { return &contentClient{pb: pb.NewContentClient(c.cc)} }

// ReadContent calls ContentService.ReadContent. It gives up when nothing comes
// for UnaryTimeout; whoever asked decides whether to go on from where it was.
func (c *contentClient) ReadContent(ctx context.Context, req ContentRequest, send func(ContentChunk) error) error {
	return receiveContent(ctx, c.pb.Read, &pb.ContentRequest{
		Executor: refToWire(req.Executor), Secret: req.Secret.Reveal(), Sha256: req.SHA256, Offset: req.Offset,
	}, send)
}

type openContentFunc func(context.Context, *pb.ContentRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.ContentChunk], error)

// receiveContent reads content to its end. Each piece has the deadline of a call.
func receiveContent(ctx context.Context, open openContentFunc, req *pb.ContentRequest, send func(ContentChunk) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(UnaryTimeout, func() { cancel(errContentStalled) })
	defer idle.Stop()
	s, err := open(ctx, req)
	for err == nil {
		var in *pb.ContentChunk
		if in, err = s.Recv(); err != nil {
			break
		}
		idle.Reset(UnaryTimeout)
		if serr := send(ContentChunk{Bytes: in.GetBytes(), Data: in.GetData()}); serr != nil {
			return serr
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(context.Cause(ctx), errContentStalled):
		return errContentStalled
	}
	return fromStatus(err)
}

// ContentReleases calls ContentService.ContentReleases.
func (c *contentClient) ContentReleases(ctx context.Context, held ContentHeld, send func([]string) error) error {
	return receiveReleases(ctx, c.pb.Releases, &pb.ContentHeld{
		Executor: refToWire(held.Executor), Secret: held.Secret.Reveal(), Sha256: held.SHA256,
	}, send)
}

type openReleasesFunc func(context.Context, *pb.ContentHeld, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.ContentReleased], error)

// receiveReleases listens until ctx ends, or the driver or its connection does.
func receiveReleases(ctx context.Context, open openReleasesFunc, held *pb.ContentHeld, send func([]string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, held)
	for err == nil {
		var in *pb.ContentReleased
		if in, err = s.Recv(); err != nil {
			break
		}
		if serr := send(in.GetSha256()); serr != nil {
			return serr
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fromStatus(err)
}
