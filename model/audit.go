package model

import "strings"

// Outcomes of audited calls.
const (
	AuditOK      = "ok"
	AuditRefused = "refused"
)

// AuditLine is one call that changed something, or calls that were refused. All
// texts are bounded (MaxNameBytes, MaxReasonBytes).
type AuditLine struct {
	Index      uint64
	Wall       int64  // ms since 1970; of the first one, if it stands for many
	Principal  string // who
	Credential string // how that is known: a token's id, "certificate", "" = by its own word
	From       string // host that the call came from; "" = a master itself
	Action     string // such as "register app"
	Object     string // id of what it was about
	Outcome    string // AuditOK or AuditRefused
	Reason     string // why it was refused
	// Count is how many equal calls the line stands for; 0 means 1.
	Count int64
}

// Refused reports whether the line is about refused calls.
func (l *AuditLine) Refused() bool { return l.Outcome == AuditRefused }

// About reports whether the line is about the application or one of its
// executors.
func (l *AuditLine) About(app AppID) bool {
	return l.Object == string(app) || strings.HasPrefix(l.Object, string(app)+"/")
}

// View is the line as people see it.
func (l *AuditLine) View() AuditView {
	return AuditView{
		Index: l.Index, At: RFC3339(l.Wall), Principal: l.Principal, Credential: l.Credential, From: l.From,
		Action: l.Action, Object: l.Object, Outcome: l.Outcome, Reason: l.Reason, Count: max(l.Count, 1),
	}
}

// AuditView is one line of `hearth audit`.
type AuditView struct {
	Index      uint64 `json:"index"`
	At         string `json:"at"`
	Principal  string `json:"principal"`
	Credential string `json:"credential"`
	From       string `json:"from"`
	Action     string `json:"action"`
	Object     string `json:"object"`
	Outcome    string `json:"outcome"`
	Reason     string `json:"reason"`
	Count      int64  `json:"count"`
}
