package archtest

// ModulePath is the module whose packages the table names.
const ModulePath = "github.com/hearthd/hearth"

// top is the layer of what may import anything and is imported by no code.
const top = 8

// Rules are everything a tree is checked against.
type Rules struct {
	// Module is the path in front of the package names below.
	Module string
	// Layers maps each package to its layer: it imports from lower ones only.
	Layers map[string]Layer
	// Pairs are the imports allowed within one layer.
	Pairs []Pair
	// Bans are imports that are forbidden in spite of the layers.
	Bans []Ban
	// Exclusives are packages that only some may import.
	Exclusives []Exclusive
	// NoGoroutines are packages without a go statement.
	NoGoroutines []Reasoned
	// MaxLines bounds every file that is not generated.
	MaxLines int
}

// Layer is the place of one package.
type Layer struct {
	Number int
	Why    string
}

// Pair is an import within one layer.
type Pair struct{ From, To, Why string }

// Ban forbids From to import any of Targets. A target is a package of the module
// by its short name, or any other import path; with "/..." at its end it covers
// everything below too. Unless Direct is set, imports through other packages of
// the module count as well.
type Ban struct {
	From    string
	Targets []string
	Direct  bool
	Why     string
}

// Exclusive lets only the packages in Only import Target directly.
type Exclusive struct {
	Target string
	Only   []string
	Why    string
}

// Reasoned is a package with the reason why a rule holds for it.
type Reasoned struct{ Package, Why string }

// HearthRules returns the rules of this module.
func HearthRules() Rules {
	return Rules{
		Module: ModulePath,
		Layers: layers(),
		Pairs: []Pair{
			{"cmd/hearth", "cmd/internal/cli", "main is one call of cli.Main"},
			{"bench", "demo", "where a daemon listens is read as the demonstration does it"},
			{"bench/decide", "bench", "its report is like the others"},
		},
		Bans:         bans(),
		Exclusives:   exclusives(),
		NoGoroutines: []Reasoned{{"fsm", "apply is a pure function of state and command"}, {"scheduler", "placement is a pure function of the view"}, {"why", "an explanation is a pure function of the view"}},
		MaxLines:     500,
	}
}

func layers() map[string]Layer {
	return map[string]Layer{
		"proto/cluster/v1":     {0, "generated code of the wire"},
		"proto/replog/v1":      {0, "generated code of the log and snapshots"},
		"model":                {0, "entities and rules that everything else speaks of"},
		"internal/atomicfile":  {0, "files replaced in one step; knows nothing of us"},
		"internal/datadir":     {0, "directories that only their user can write; knows nothing of us"},
		"internal/lifecycle":   {0, "actor group; knows nothing of us"},
		"internal/loopback":    {0, "which hosts are this machine; knows nothing of us"},
		"internal/logline":     {0, "bounded lines of a log; knows nothing of us"},
		"internal/priority":    {0, "the nice value of this process; knows nothing of us"},
		"internal/simnet":      {0, "in-memory network; knows nothing of us"},
		"internal/unixsocket":  {0, "sockets between processes of one user; knows nothing of us"},
		"config":               {1, "settings, in model's terms"},
		"internal/pages":       {0, "tables by numbers; knows nothing of us"},
		"internal/recordlog":   {1, "append-only files of checked records; knows nothing of us"},
		"internal/tlsconf":     {1, "TLS from files"},
		"internal/ca":          {2, "makes the certificates that tlsconf reads"},
		"fsm":                  {2, "replicated state, pure"},
		"scheduler":            {2, "placement, pure"},
		"gossip":               {2, "adapter of serf"},
		"rpc":                  {2, "adapter of gRPC"},
		"client":               {3, "calls a cluster through rpc"},
		"why":                  {3, "why something waits: explanations from the scheduler's view, pure"},
		"executor":             {3, "runs tasks for a driver, through rpc"},
		"raftnode":             {4, "adapter of hashicorp/raft around fsm"},
		"driver":               {4, "owner of an app, through client and rpc"},
		"run":                  {5, "the engine of hearth run: a driver for shell tasks"},
		"simulate":             {5, "what-if scheduling: fsm and scheduler on a scenario"},
		"web":                  {5, "pages, JSON and metrics from the views"},
		"workerd/keeper":       {5, "starts and supervises the processes of a worker"},
		"masterd":              {6, "master daemon: wires fsm, raftnode, gossip, rpc, scheduler"},
		"workerd":              {6, "worker daemon: wires keeper, gossip, rpc"},
		"demo":                 {6, "starts a cluster as processes and runs a job on it"},
		"bench":                {6, "benchmark commands; starts clusters and peers as processes"},
		"bench/decide":         {6, "decisions of the scheduler beside a full scan, in this process"},
		"cmd/internal/cli":     {7, "one file per verb"},
		"cmd/hearth":           {7, "main"},
		"examples/pi":          {7, "a program on the driver SDK"},
		"examples/sweep":       {7, "a program on the driver SDK"},
		"examples/wordcount":   {7, "a program on the driver SDK"},
		"internal/testcluster": {top, "whole clusters for tests"},
		"cmd/internal/dist":    {top, "what packages hold beside the binary"},
		"internal/testca":      {top, "certificates for tests"},
		"internal/leaktest":    {top, "looks for goroutines that tests leave behind"},
		"internal/archtest":    {top, "this check"},
		"e2e":                  {top, "tests on real processes"},
		"e2e/history":          {top, "what clients saw, and the judge of it"},
	}
}

func bans() []Ban {
	return []Ban{
		{"model", []string{"google.golang.org/protobuf/...", "google.golang.org/grpc/..."}, false, "domain types are plain structs; protobuf is converted at the edges, once"},

		{"fsm", []string{"github.com/hashicorp/raft/...", "github.com/hashicorp/serf/...", "google.golang.org/grpc/..."}, false, "the state is replayed offline and fuzzed without a network"},
		{"fsm", []string{"time", "math/rand/...", "crypto/rand"}, true, "replicas would differ: times, ids and choices enter in the command"},
		{"fsm", []string{"os/...", "net/...", "io/fs"}, true, "apply calls nothing; what it touches must be the same on every replica"},
		{"fsm", []string{"log/...", "github.com/hashicorp/go-hclog"}, true, "apply returns changes; the daemon logs them"},

		{"scheduler", []string{"time", "math/rand/...", "crypto/rand"}, true, "the same view must give the same plan; the view carries flags, never times"},
		{"scheduler", []string{"os/...", "net/...", "sync/...", "log/...", "github.com/hashicorp/go-hclog"}, true, "a plan is a value: view in, placements out"},
		{"scheduler", []string{"fsm", "github.com/hashicorp/raft/...", "google.golang.org/grpc/..."}, false, "it declares the view it needs, so that a simulation can supply one"},

		{"raftnode", []string{"rpc", "gossip", "scheduler", "client", "executor"}, false, "it declares what it asks of peers; masterd implements that with rpc"},
		{"driver", []string{"fsm", "scheduler", "gossip", "raftnode"}, false, "user programs link it, and the master's inside is not their business"},
		{"executor", []string{"fsm", "scheduler", "gossip", "raftnode"}, false, "user programs link it, and the master's inside is not their business"},
		{"run", []string{"fsm", "scheduler", "gossip", "raftnode"}, false, "hearth run is a driver like any other"},

		{"web", []string{"fsm", "raftnode", "scheduler", "gossip"}, false, "pages show the view structs and nothing else: one truth for page, JSON, CLI and metrics"},

		{"masterd", []string{"workerd", "executor", "driver"}, false, "a master sends orders over the wire and never sees a task"},
		{"workerd", []string{"fsm", "raftnode", "scheduler", "masterd"}, false, "a worker obeys orders; a second opinion on the state would be a second truth"},
		{"workerd/keeper", []string{"rpc", "gossip", "config", "google.golang.org/grpc/..."}, false, "the keeper must outlive everything that can hang or change"},
		{"demo", []string{"fsm", "raftnode", "scheduler", "masterd", "workerd"}, false, "the demonstration uses real processes only"},
		{"bench", []string{"fsm", "scheduler", "masterd", "workerd"}, true, "what is measured runs as processes, like everybody's"},

		// Direct, because both necessarily link masterd.
		{"cmd/internal/cli", []string{"fsm", "raftnode", "scheduler"}, true, "a verb starts a daemon or calls a cluster; it does not look inside"},
		{"cmd/hearth", []string{"fsm", "raftnode", "scheduler"}, true, "main is one call"},
	}
}

func exclusives() []Exclusive {
	testsOnly := "imported by tests only"
	return []Exclusive{
		{"github.com/hashicorp/raft/...", []string{"raftnode"}, "one adapter: its types, futures and quirks stay behind typed calls"},
		{"github.com/hashicorp/raft-boltdb/...", []string{"raftnode"}, "a store of Raft"},
		{"github.com/hashicorp/raft-wal/...", []string{"raftnode"}, "a store of Raft"},
		{"github.com/hashicorp/raft-autopilot/...", []string{"raftnode"}, "voters are raftnode's business"},
		{"github.com/hashicorp/serf/...", []string{"gossip"}, "one adapter: tags are typed at the edge"},
		{"github.com/hashicorp/memberlist/...", []string{"gossip"}, "one adapter: tags are typed at the edge"},
		{"proto/cluster/v1", []string{"rpc"}, "the wire is converted to model in one place"},
		{"github.com/hashicorp/hcl/...", []string{"config"}, "settings are read in one place"},
		{"internal/simnet", []string{"internal/testcluster"}, testsOnly},
		{"internal/testcluster", nil, testsOnly},
		{"internal/testca", nil, testsOnly},
		{"internal/leaktest", nil, testsOnly},
		{"internal/archtest", nil, testsOnly},
		{"e2e", nil, testsOnly},
		{"e2e/history", nil, testsOnly},
		{"github.com/anishathalye/porcupine", []string{"e2e/history"}, "histories have one model and one judge"},
	}
}
