package fsm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
)

// MaxEntryBytes bounds an encoded batch. raftnode fills entries up to 512 KiB
// of commands; the rest leaves room for a single big one.
const MaxEntryBytes = 1 << 20

// ErrBroken says that the node must stop: the log or the state cannot be
// trusted, or belongs to a newer version.
var ErrBroken = errors.New("replicated state is broken")

// FSM holds the replicated state. Apply and Restore must be called by one
// goroutine at a time (Raft's apply thread); View and Snapshot are safe from
// anywhere and never block.
type FSM struct {
	cur   atomic.Pointer[state]
	batch uint64 // owner mark of the next batch; the apply thread's alone
	check bool
}

// Option changes how an FSM works.
type Option func(*FSM)

// CheckInvariants makes Apply check every invariant after each entry. It costs
// time in proportion to the whole state, so it is meant for tests.
func CheckInvariants() Option { return func(f *FSM) { f.check = true } }

// New returns an FSM with the empty state.
func New(opts ...Option) *FSM {
	f := &FSM{}
	for _, o := range opts {
		o(f)
	}
	f.cur.Store(newState())
	return f
}

// Outcome is what one entry did.
type Outcome struct {
	Results []Result // one for each command, in order
	Changes []Change // each changed record once, in order of its first change
}

// Result is the verdict on one command. Exactly the fields that the kind
// returns are set.
type Result struct {
	Rejection  model.Rejection // RejectNone: accepted
	Text       string          // why, for a person
	Index      uint64          // of the entry that decided it
	App        model.AppID
	Token      model.Secret
	Driver     model.DriverID
	Placements []PlacementVerdict
	// Repeated: the command had been applied before and changed nothing now.
	Repeated bool
}

// Err returns nil for an accepted command, else a *model.RejectedError.
func (r Result) Err() error { return r.Rejection.Err(r.Text) }

// PlacementVerdict is the verdict on one placement of a PlaceExecutors
// command.
type PlacementVerdict struct {
	Rejection model.Rejection
	Text      string
	Executor  model.ExecutorID // allotted, if accepted
}

// Err returns nil for an accepted placement, else a *model.RejectedError.
func (v PlacementVerdict) Err() error { return v.Rejection.Err(v.Text) }

// ChangeKind says which table a change is in.
type ChangeKind int

// Kinds of change.
const (
	ChangeWorker ChangeKind = iota + 1
	ChangeApp
	ChangeExecutor
	ChangeMaster
	ChangeSettings
	ChangeCluster
	ChangeToken
	ChangeDriver // App is the driver's id
)

// Change names one record that an entry added, changed or removed. For an
// executor both App and Executor are set, and Worker is where it runs.
type Change struct {
	Kind     ChangeKind
	Worker   model.WorkerID
	App      model.AppID
	Executor model.ExecutorID
	Master   model.MasterID
	Token    model.TokenID
	Index    uint64
}

// Apply applies one encoded batch. The error is ErrBroken, the state is then
// unchanged and the node must stop; refused commands are results, not errors.
func (f *FSM) Apply(index uint64, entry []byte) (Outcome, error) {
	cur := f.cur.Load()
	if index <= cur.index {
		return Outcome{}, fmt.Errorf("%w: entry %d after entry %d", ErrBroken, index, cur.index)
	}
	cmds, err := decodeBatch(entry)
	if err != nil {
		return Outcome{}, fmt.Errorf("apply entry %d: %w", index, err)
	}
	f.batch++
	t := begin(cur, index, f.batch)
	out := Outcome{Results: make([]Result, len(cmds))}
	for i, c := range cmds {
		out.Results[i] = t.apply(c)
	}
	next := t.commit()
	if f.check {
		if err := next.checkInvariants(); err != nil {
			return Outcome{}, fmt.Errorf("apply entry %d: %w", index, err)
		}
	}
	out.Changes = t.changes
	f.cur.Store(next)
	return out, nil
}

// View returns the state after the last applied entry. It is immutable and
// stays valid for as long as it is held.
func (f *FSM) View() *View { return &View{s: f.cur.Load()} }

// decodeBatch reads an entry and checks every kind in it before any applies.
func decodeBatch(entry []byte) ([]*replogv1.Command, error) {
	var b replogv1.Batch
	if err := proto.Unmarshal(entry, &b); err != nil {
		return nil, fmt.Errorf("%w: decode batch of %d bytes: %w", ErrBroken, len(entry), err)
	}
	for i, c := range b.GetCommands() {
		if c.GetKind() == nil && !c.GetIgnorable() {
			return nil, fmt.Errorf("%w: command %d of %d is of a kind that this version does not know; run the version that wrote it",
				ErrBroken, i+1, len(b.GetCommands()))
		}
	}
	return b.GetCommands(), nil
}

// EncodeBatch encodes commands as one log entry. It fails with ErrTooLarge
// above MaxEntryBytes and with ErrInvalid for text that is not UTF-8 or a
// command without a kind.
func EncodeBatch(cmds []*replogv1.Command) ([]byte, error) {
	for i, c := range cmds {
		if c.GetKind() == nil {
			return nil, fmt.Errorf("%w: command %d of %d has no kind", model.ErrInvalid, i+1, len(cmds))
		}
	}
	out, err := proto.Marshal(&replogv1.Batch{Commands: cmds})
	if err != nil {
		return nil, fmt.Errorf("%w: encode %d commands: %w", model.ErrInvalid, len(cmds), err)
	}
	if len(out) > MaxEntryBytes {
		return nil, fmt.Errorf("%w: %d commands make an entry of %d bytes; the limit is %d", model.ErrTooLarge, len(cmds), len(out), MaxEntryBytes)
	}
	return out, nil
}
