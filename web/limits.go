package web

import "time"

// Limits of one HTTP server.
const (
	// PageRows is how many rows a table has by default, MaxPageRows how many may be asked for.
	PageRows    = 50
	MaxPageRows = 500
	// overviewRows is how many rows of each table the first page shows.
	overviewRows = 10

	// maxAnswers is how many answers are computed at the same time; others wait up to maxAnswerWait and are then refused.
	maxAnswers    = 16
	maxAnswerWait = 2 * time.Second
	// maxViewers is how many browsers follow at the same time; others look again at intervals.
	maxViewers = 64
	// maxLogReads is how many logs are read through this master's pages at the same time.
	maxLogReads = 16
	// maxQuery bounds what a filter may contain.
	maxQuery = 128
	// maxLoginBytes bounds the form of the login.
	maxLoginBytes = 4 << 10

	// logPage is how much of a log one page shows, maxLogRange how much may be asked for.
	logPage     = 64 << 10
	maxLogRange = 1 << 20
	logTimeout  = 10 * time.Second

	// A snapshot is used until it is freshFactor times as old as it took to make, within the two bounds: making them
	// costs at most 1/freshFactor of a core.
	freshFactor = 20
	minFresh    = 20 * time.Millisecond
	maxFresh    = time.Second

	// liveGap is the least time between two events of one viewer; what happens between them is one event.
	liveGap = 500 * time.Millisecond
	// liveTick is how often a viewer's master looks for changes that no entry of the log announces, such as a lost leader.
	liveTick = time.Second
	// livePing is how often a quiet stream says that it lives.
	livePing = 15 * time.Second
	// writeTimeout is how long a reader may take to take an answer, or one event.
	writeTimeout = 30 * time.Second
	eventTimeout = 5 * time.Second
)
