package model

// AuditLine is one mutating call that was applied.
type AuditLine struct {
	Index     uint64
	Wall      int64 // ms since 1970
	Principal string
	Action    string // such as "register app"
	Object    string // id of what it was about
	Outcome   string
}
