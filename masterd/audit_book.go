package masterd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// What whoever is refused can make the cluster write: one command with at most
// auditKinds lines and one more, first after auditPause, and later and later up
// to auditPauseMax while refusals go on.
const (
	auditKinds    = 32
	auditPause    = time.Second
	auditPauseMax = time.Minute
	// auditChanges bounds the lines about changes that wait; they are not
	// aggregated, and whoever makes them may.
	auditChanges = 1024
)

// auditKind is what refused calls have in common that are counted together.
type auditKind struct {
	principal, credential, from, action, object string
}

// auditBook gathers what this master has to write into the audit trail. Refused
// calls that are alike become one line with their number; what does not fit is
// counted without details.
type auditBook struct {
	mu      sync.Mutex
	refused map[auditKind]*model.AuditLine
	order   []auditKind
	rest    model.AuditLine // Count = 0: none
	changes []model.AuditLine
	fresh   poke
}

func newAuditBook() *auditBook {
	return &auditBook{refused: make(map[auditKind]*model.AuditLine), fresh: newPoke()}
}

// add takes a line. It never blocks.
func (b *auditBook) add(l model.AuditLine, now time.Time) {
	clipAudit(&l)
	if l.Wall == 0 {
		l.Wall = now.UnixMilli()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(l)
	b.fresh.wake()
}

func (b *auditBook) addLocked(l model.AuditLine) {
	l.Count = max(l.Count, 1)
	if !l.Refused() {
		if len(b.changes) < auditChanges {
			b.changes = append(b.changes, l)
		}
		return
	}
	kind := auditKind{l.Principal, l.Credential, l.From, l.Action, l.Object}
	if known := b.refused[kind]; known != nil {
		known.Count += l.Count
		known.Wall = min(known.Wall, l.Wall)
		return
	}
	if len(b.refused) < auditKinds {
		b.refused[kind] = &l
		b.order = append(b.order, kind)
		return
	}
	if b.rest.Count == 0 {
		b.rest = model.AuditLine{Wall: l.Wall, Action: "many calls", Outcome: model.AuditRefused}
	}
	b.rest.Count += l.Count
	b.rest.Reason = fmt.Sprintf("%d more refused calls, of other callers or about other things than the %d kinds that were written down", b.rest.Count, auditKinds)
}

// clipAudit keeps a line within the limits of the replicated state: callers
// choose some of its texts.
func clipAudit(l *model.AuditLine) {
	for _, s := range []*string{&l.Principal, &l.Credential, &l.From, &l.Action} {
		if len(*s) > model.MaxNameBytes {
			*s = (*s)[:model.MaxNameBytes]
		}
		*s = strings.ToValidUTF8(*s, "?")
	}
	if l.Action == "" {
		l.Action = "unknown"
	}
	if l.Outcome != model.AuditOK {
		l.Outcome = model.AuditRefused
	}
	l.Object, l.Reason = model.TrimReason(l.Object), model.TrimReason(l.Reason)
	l.Index, l.Count = 0, max(l.Count, 0)
}

// take returns the next lines to write, at most model.MaxAuditLines, and whether
// there are refusals among them.
func (b *auditBook) take() (lines []model.AuditLine, refusals bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, kind := range b.order {
		lines = append(lines, *b.refused[kind])
	}
	if b.rest.Count > 0 {
		lines = append(lines, b.rest)
	}
	refusals = len(lines) > 0
	clear(b.refused)
	b.order, b.rest = nil, model.AuditLine{}
	n := min(len(b.changes), model.MaxAuditLines-len(lines))
	lines = append(lines, b.changes[:n]...)
	b.changes = slices.Delete(b.changes, 0, n)
	if len(b.changes) > 0 {
		b.fresh.wake()
	}
	return lines, refusals
}

// giveBack keeps lines that could not be written.
func (b *auditBook) giveBack(lines []model.AuditLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		b.addLocked(l)
	}
	b.fresh.wake()
}

// writeAudit writes what the book has gathered until ctx ends.
func (m *Master) writeAudit(ctx context.Context) error {
	pause := auditPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.access.notes.fresh:
		}
		lines, refusals := m.access.notes.take()
		if len(lines) == 0 {
			pause = auditPause
			continue
		}
		if err := m.recordAudit(ctx, lines); err != nil {
			m.log.Debug("audit lines are kept for later", "lines", len(lines), "err", err)
			m.access.notes.giveBack(lines)
			refusals = true
		}
		if !refusals {
			continue
		}
		quiet, err := m.auditPause(ctx, pause)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended, which is how this ends
		}
		if pause = min(2*pause, auditPauseMax); quiet {
			pause = auditPause
		}
	}
}

// auditPause waits, and reports whether nothing came meanwhile.
func (m *Master) auditPause(ctx context.Context, d time.Duration) (quiet bool, err error) {
	if err := sleep(ctx, d); err != nil {
		return false, err
	}
	b := m.access.notes
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order) == 0, nil
}

// recordAudit commits lines, or has the leader commit them.
func (m *Master) recordAudit(ctx context.Context, lines []model.AuditLine) error {
	if m.leading.Load() != nil {
		return m.propose(ctx, recordAuditCommand(lines))
	}
	id, _ := m.node.Leader()
	conn, err := m.conns.get(m.grpcAddrOf(id))
	if err != nil {
		return fmt.Errorf("tell the leader of refused calls: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	if err := rpc.AccessClient(conn).RecordAudit(ctx, rpc.RecordAuditRequest{Master: m.id.ID(), Lines: lines}); err != nil {
		return fmt.Errorf("tell the leader of refused calls: %w", err)
	}
	return nil
}

func recordAuditCommand(lines []model.AuditLine) *replogv1.Command {
	cmd := &replogv1.RecordAudit{}
	for _, l := range lines {
		cmd.Lines = append(cmd.Lines, fsm.AuditToProto(&l))
	}
	return &replogv1.Command{Principal: "master", Kind: &replogv1.Command_RecordAudit{RecordAudit: cmd}}
}
