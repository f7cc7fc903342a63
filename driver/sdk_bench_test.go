package driver

import (
	"context"
	"testing"
)

// BenchmarkStream is what a call of an empty function costs with everything around
// it: encoding, driver, link, executor, and back; two executors in this process.
func BenchmarkStream(b *testing.B) {
	for name, run := range map[string]func(*Program) func(context.Context, *App, int) error{
		"int": func(p *Program) func(context.Context, *App, int) error {
			fn := Register(p, "double", double)
			return func(ctx context.Context, app *App, n int) error {
				for _, r := range Stream(ctx, app, fn, counting(n)) {
					if r.Err != nil {
						return r.Err
					}
				}
				return nil
			}
		},
		"bytes256": func(p *Program) func(context.Context, *App, int) error {
			fn := Register(p, "same", func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
			payload := make([]byte, 256)
			return func(ctx context.Context, app *App, n int) error {
				seq := func(yield func([]byte) bool) {
					for range n {
						if !yield(payload) {
							return
						}
					}
				}
				for _, r := range Stream(ctx, app, fn, seq) {
					if r.Err != nil {
						return r.Err
					}
				}
				return nil
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSDK(b, func(p *Program) {
				part := run(p)
				p.Run(func(ctx context.Context, app *App) error {
					if err := part(ctx, app, 1000); err != nil { // until executors are there
						return err
					}
					b.ReportAllocs()
					b.ResetTimer()
					defer b.StopTimer()
					return part(ctx, app, b.N)
				})
			})
			if code := s.run(context.Background(), []int{1, 1}); code != CodeOK {
				b.Fatalf("code %d: %s", code, &s.stderr)
			}
		})
	}
}
