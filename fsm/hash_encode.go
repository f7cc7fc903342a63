package fsm

import (
	"cmp"

	"github.com/hearthd/hearth/model"
	"google.golang.org/protobuf/encoding/protowire"
)

// The records that change with every placement are encoded here by hand for the
// state hash, byte for byte as the protobuf library encodes what convert*.go
// makes of them: a test compares the two. It takes a tenth of the time and no
// memory.

// recordBytes is a message being encoded. Fields come in the order of their
// numbers; those that are zero are left out.
type recordBytes []byte

func (b *recordBytes) uint(field protowire.Number, v uint64) {
	if v != 0 {
		*b = protowire.AppendVarint(protowire.AppendTag(*b, field, protowire.VarintType), v)
	}
}

func (b *recordBytes) int64(field protowire.Number, v int64) { b.uint(field, uint64(v)) }

// int32 cuts a number as the field does.
func (b *recordBytes) int32(field protowire.Number, v int) { b.uint(field, uint64(int64(int32(v)))) }

func (b *recordBytes) bool(field protowire.Number, v bool) {
	if v {
		b.uint(field, 1)
	}
}

func (b *recordBytes) string(field protowire.Number, s string) {
	if s != "" {
		b.element(field, s)
	}
}

// element is a string of a list, which is there even if it is empty.
func (b *recordBytes) element(field protowire.Number, s string) {
	*b = protowire.AppendString(protowire.AppendTag(*b, field, protowire.BytesType), s)
}

// begin starts a message within the message; end needs what it returns.
func (b *recordBytes) begin(field protowire.Number) int {
	*b = append(protowire.AppendTag(*b, field, protowire.BytesType), 0)
	return len(*b)
}

// end writes the length of the message that began at start, and makes room for
// it if one byte does not do.
func (b *recordBytes) end(start int) {
	n := len(*b) - start
	more := protowire.SizeVarint(uint64(n)) - 1
	for range more {
		*b = append(*b, 0)
	}
	copy((*b)[start+more:], (*b)[start:start+n])
	protowire.AppendVarint((*b)[:start-1], uint64(n))
}

// inOrder visits a map by key. Most maps here have one.
func inOrder[K cmp.Ordered, V any](m map[K]V, visit func(K, V)) {
	if len(m) == 1 {
		for k, v := range m {
			visit(k, v)
		}
		return
	}
	for _, k := range sortedKeys(m) {
		visit(k, m[k])
	}
}

func (b *recordBytes) executor(e *model.Executor) {
	b.string(1, string(e.App))
	b.int32(2, int(e.ID))
	b.int32(3, e.Profile)
	b.string(4, string(e.Worker))
	b.uint(5, e.Incarnation)
	b.int32(6, e.Cores)
	b.int64(7, e.MemoryMiB)
	inOrder(e.Resources, func(name string, addresses []string) {
		at := b.begin(8)
		b.string(1, name)
		for _, a := range addresses {
			b.element(2, a)
		}
		b.end(at)
	})
	b.string(9, string(e.State))
	b.string(10, e.Reason)
	b.string(11, string(e.Cause))
	b.int32(12, e.ExitCode)
	b.int32(13, e.Signal)
	b.int32(14, e.PID)
	b.string(15, e.Secret.Reveal())
	b.int64(16, e.PlacedTick)
	b.int64(17, e.LaunchTick)
	b.int64(18, e.RunningTick)
	b.int64(19, e.StateTick)
	b.int64(20, e.PlacedWall)
	b.int64(21, e.EndedWall)
	b.uint(22, e.ChangeIndex)
	b.bool(23, e.Leaving)
}

// app is what changes about an application, see appBookToProto.
func (b *recordBytes) app(a *model.App) {
	b.string(1, string(a.ID))
	b.uint(2, a.Number)
	b.string(3, a.RequestID)
	b.string(4, a.Principal)
	b.string(5, a.Token.Reveal())
	b.string(7, string(a.State))
	b.string(8, a.Reason)
	b.int32(9, a.ExitCode)
	inOrder(a.Profiles, func(id int, p model.Profile) {
		at := b.begin(10)
		b.int32(1, id)
		b.profile(2, p)
		b.end(at)
	})
	b.counts(11, a.Targets)
	b.int32(12, int(a.NextExecutor))
	b.int32(13, a.Completed)
	b.int32(14, a.CoresGranted)
	b.counts(15, a.Live)
	for _, f := range a.Failures {
		at := b.begin(16)
		b.string(1, string(f.Worker))
		b.int64(2, f.Tick)
		b.string(3, string(f.Cause))
		b.bool(4, f.Quick)
		b.end(at)
	}
	for _, x := range a.Excluded {
		at := b.begin(17)
		b.string(1, string(x.Worker))
		b.int64(2, x.UntilTick)
		b.end(at)
	}
	b.int64(18, a.BackoffUntil)
	b.int64(19, a.Backoff)
	inOrder(a.FinishedCount, func(c model.Cause, n int) {
		at := b.begin(21)
		b.string(1, string(c))
		b.int64(2, int64(n))
		b.end(at)
	})
	b.int64(22, a.SubmittedWall)
	b.int64(23, a.SubmittedTick)
	b.int64(24, a.StartedWall)
	b.int64(25, a.EndedWall)
	b.int64(26, a.EndedTick)
	b.uint(27, a.ChangeIndex)
	b.int32(30, a.CoresLeaving)
}

func (b *recordBytes) profile(field protowire.Number, p model.Profile) {
	at := b.begin(field)
	b.int32(1, p.Cores)
	b.int64(2, p.MemoryMiB)
	inOrder(p.Resources, func(name string, n int) {
		at := b.begin(3)
		b.string(1, name)
		b.int32(2, n)
		b.end(at)
	})
	b.end(at)
}

func (b *recordBytes) counts(field protowire.Number, m map[int]int) {
	inOrder(m, func(id, n int) {
		at := b.begin(field)
		b.int32(1, id)
		b.int32(2, n)
		b.end(at)
	})
}

func (b *recordBytes) auditLine(l *model.AuditLine) {
	b.uint(1, l.Index)
	b.int64(2, l.Wall)
	b.string(3, text(l.Principal))
	b.string(4, text(l.Action))
	b.string(5, text(l.Object))
	b.string(6, text(l.Outcome))
	b.string(7, text(l.From))
	b.string(8, text(l.Credential))
	b.string(9, text(l.Reason))
	b.int64(10, l.Count)
}

func (b *recordBytes) request(r *remembered) {
	b.string(1, r.id)
	b.uint(2, r.index)
	if len(r.result) > 0 {
		*b = protowire.AppendBytes(protowire.AppendTag(*b, 3, protowire.BytesType), r.result)
	}
}
