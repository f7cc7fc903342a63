package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// auditPoll is how often a followed trail is asked for.
	auditPoll = time.Second
	// defaultAuditLines is how many lines are shown unless asked otherwise.
	defaultAuditLines = 100
)

// auditView is `hearth audit -o json`. With -f each line is an object of its own.
type auditView struct {
	Version int               `json:"version"`
	Lines   []model.AuditView `json:"lines"`
}

// auditFlags are those of hearth audit.
type auditFlags struct {
	cluster   clusterFlags
	out       output
	since     string
	principal string
	app       string
	lines     int
	follow    bool
}

func newAudit(s Streams) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, and who was refused",
		Long: "Shows the audit trail, the oldest line first: each call that changed something, and\n" +
			"calls that were refused, with who called (and how that is known: a certificate, a token\n" +
			"or nothing but his word), from which host, and what about. Refused calls that are alike\n" +
			"are counted in one line. The trail is replicated: any master shows it. It keeps the\n" +
			"newest 10000 lines, at most 2500 of them about refusals.",
		Example: "  hearth audit --since 2h --principal ann\n  hearth audit --app app-20261130061500-0003 -o json\n  hearth audit -f",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	cmd.Flags().StringVar(&f.since, "since", "", "only lines since then: a duration such as 2h, or a time such as 2026-11-30T06:15:00Z")
	cmd.Flags().StringVar(&f.principal, "principal", "", "only what this one did or was refused")
	cmd.Flags().StringVar(&f.app, "app", "", "only what is about this application or its executors")
	cmd.Flags().IntVar(&f.lines, "lines", defaultAuditLines, "at most the newest so many lines; 0 is all")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on showing lines as they come")
	f.cluster.bind(cmd)
	f.out.bind(cmd)
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command, s Streams) error {
	if err := f.out.check(); err != nil {
		return err
	}
	since, err := parseSince(f.since, time.Now())
	if err != nil {
		return err
	}
	if f.lines < 0 {
		return usage("--lines %d: must be a number of lines, 0 for all", f.lines)
	}
	c, err := f.cluster.connect(cmd, s)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	req := rpc.AuditRequest{SinceMilli: since, Principal: f.principal, App: model.AppID(f.app), Limit: f.lines}
	reply, err := f.ask(cmd, c, req)
	if err != nil {
		return err
	}
	if !f.follow {
		v := auditView{Version: model.ViewVersion, Lines: auditViews(reply.Lines)}
		return f.out.print(s.Out, v, func(w io.Writer) error { return auditTable(w, v.Lines, true) })
	}
	return f.followFrom(cmd, s, c, req, reply)
}

func (f *auditFlags) ask(cmd *cobra.Command, c *session, req rpc.AuditRequest) (rpc.AuditReply, error) {
	ctx, cancel := f.cluster.bounded(cmd)
	defer cancel()
	return c.Audit(ctx, req)
}

// followFrom shows reply and then what comes after it, until the command is
// interrupted.
func (f *auditFlags) followFrom(cmd *cobra.Command, s Streams, c *session, req rpc.AuditRequest, reply rpc.AuditReply) error {
	head := true
	tick := time.NewTicker(auditPoll)
	defer tick.Stop()
	for {
		if err := f.show(s.Out, reply.Lines, head); err != nil {
			return err
		}
		head = false
		select {
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		case <-tick.C:
		}
		// A standby that lags answers with an older index: never go back.
		req.After, req.Limit = max(req.After, reply.Index), 0
		next, err := f.ask(cmd, c, req)
		if err != nil {
			return err
		}
		reply = next
	}
}

func (f *auditFlags) show(w io.Writer, lines []model.AuditLine, head bool) error {
	views := auditViews(lines)
	if f.out.format != formatJSON {
		if len(views) == 0 && !head {
			return nil
		}
		return auditTable(w, views, head)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, v := range views {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
	}
	return nil
}

func auditViews(lines []model.AuditLine) []model.AuditView {
	out := make([]model.AuditView, 0, len(lines))
	for i := range lines {
		out = append(out, lines[i].View())
	}
	return out
}

func auditTable(w io.Writer, lines []model.AuditView, head bool) error {
	t := &tableWriter{tw: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if head {
		t.row("TIME", "WHO", "BY", "FROM", "ACTION", "OBJECT", "OUTCOME", "COUNT", "REASON")
	}
	for _, l := range lines {
		t.row(l.At, oneLine(l.Principal), l.Credential, l.From, oneLine(l.Action), oneLine(l.Object), l.Outcome, l.Count, oneLine(l.Reason))
	}
	return t.flush()
}

// oneLine keeps a text that a stranger chose from breaking a table or a
// terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// parseSince reads a moment, or a duration before now, as ms since 1970; 0 for
// nothing.
func parseSince(text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, usage("--since %q: want a duration such as 2h, or a time such as 2026-11-30T06:15:00Z", text)
	}
	return at.UnixMilli(), nil
}
