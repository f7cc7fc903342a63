package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/internal/loopback"
)

// beatsPerTimeout is the least number of beats that fit in worker_timeout, so
// that one lost beat never kills a worker.
const beatsPerTimeout = 3

// validator collects the problems and warnings of the rules across fields.
type validator struct {
	// sources is nil when the configuration was not loaded: then rules that ask
	// whether something was set at all do not apply.
	sources  map[string]string
	problems []Problem
	warnings []string
}

// Validate checks the rules that LoadMaster checks, for a configuration built
// in code. It changes nothing and may be called at any time.
func (c MasterConfig) Validate() error {
	v := &validator{}
	problemsOf(v, masterKeys(&c))
	v.master(&c)
	return asError(v.problems)
}

// Validate checks the rules that LoadWorker checks, for a configuration built
// in code.
func (c WorkerConfig) Validate() error {
	v := &validator{}
	problemsOf(v, workerKeys(&c))
	v.worker(&c)
	return asError(v.problems)
}

// Validate checks the rules that LoadClient checks, for a configuration built
// in code.
func (c ClientConfig) Validate() error {
	v := &validator{}
	problemsOf(v, clientKeys(&c))
	v.client(&c)
	return asError(v.problems)
}

// problemsOf parses what each key holds once more, so that a value set in code
// obeys the rule of its key. Mappings, whose text is not shown, and empty values,
// which have rules of their own, are passed over.
func problemsOf(v *validator, keys []key) {
	for _, k := range keys {
		text := k.value.text()
		if text == "" || k.value.shape == mapping {
			continue
		}
		if err := k.value.set(split(text, k.value)); err != nil {
			v.bad(k.field(), text, err.Error())
		}
	}
}

func (v *validator) bad(field, value, rule string) {
	source, ok := v.sources[field]
	if !ok {
		source = sourceDefault
	}
	v.problems = append(v.problems, Problem{Source: source, Field: field, Value: clip(value), Rule: rule})
}

func (v *validator) warn(format string, args ...any) {
	v.warnings = append(v.warnings, fmt.Sprintf(format, args...))
}

func (v *validator) master(c *MasterConfig) {
	v.required("data_dir", c.DataDir)
	v.network(c.Network.Network, c.TLS)
	v.gossipKey(c.Network.Network, c.TLS, c.GossipKeyFile())
	v.tokens(c)
	v.ports([]port{
		{"network.grpc_port", c.Network.GRPCPort},
		{"network.serf_port", c.Network.SerfPort},
		{"network.http_port", c.Network.HTTPPort},
		{"network.raft_port", c.Network.RaftPort},
	})
	v.tls(c.TLS)
	v.beats(c.Scheduler)
	v.expect(c)
}

// expect checks that a master which is told of others was told how many they
// are: a default of one would found a second cluster beside theirs.
func (v *validator) expect(c *MasterConfig) {
	n := c.Raft.BootstrapExpect
	_, given := v.sources["raft.bootstrap_expect"]
	switch {
	case v.sources != nil && !given && len(c.Gossip.Join) > 0:
		v.bad("raft.bootstrap_expect", "", "must be set when join is: how many masters found the cluster together")
	case n > 0 && n%2 == 0:
		v.warn("bootstrap_expect is %d: %d masters survive no more failures than %d, use an odd number", n, n, n-1)
	case n == 1 && !given:
		v.warn("running as a single master: nothing survives the loss of this process; for a cluster set bootstrap_expect and join")
	}
}

func (v *validator) worker(c *WorkerConfig) {
	v.required("data_dir", c.DataDir)
	v.network(c.Network, c.TLS)
	v.gossipKey(c.Network, c.TLS, c.GossipKeyFile())
	v.ports([]port{
		{"network.grpc_port", c.Network.GRPCPort},
		{"network.serf_port", c.Network.SerfPort},
		{"network.http_port", c.Network.HTTPPort},
	})
	v.tls(c.TLS)
	if len(c.Worker.Masters) == 0 && len(c.Gossip.Join) == 0 {
		v.bad("worker.masters", "", "must name a master when gossip.join names no member")
	}
}

func (v *validator) client(c *ClientConfig) {
	if len(c.Masters) == 0 {
		v.bad("client.masters", "", "must name at least one master")
	}
	v.tls(c.TLS)
}

// tokens warns of a lock on one of two doors. Without TLS and tokens both stand
// open, of which network warns.
func (v *validator) tokens(c *MasterConfig) {
	switch required := c.Access.Tokens == TokensRequired; {
	case c.TLS.Enabled() && !required && !loopback.Host(c.Network.Bind):
		v.warn(`access.tokens is not "required": whoever has a client's certificate is an operator and nobody can be given less; to tell people apart set it on all masters`)
	case required && !c.TLS.Enabled():
		v.warn("access.tokens is required without TLS: people need a token, but whatever reaches this address may still speak as a worker or a master")
	}
}

func (v *validator) required(field, value string) {
	if strings.TrimSpace(value) == "" {
		v.bad(field, value, "must not be empty")
	}
}

// network checks bind and advertise, and that nothing listens beyond loopback
// without TLS by accident: an open control port lets anyone run code.
func (v *validator) network(n Network, t TLS) {
	if err := checkHost(n.Bind); err != nil {
		v.bad("network.bind", n.Bind, err.Error())
		return
	}
	if n.Advertise != "" {
		v.advertise(n.Advertise)
	} else if isUnspecified(n.Bind) {
		v.bad("network.advertise", "", fmt.Sprintf("must be set when bind is %s: others cannot dial that", n.Bind))
	}
	if loopback.Host(n.Bind) || t.Enabled() {
		return
	}
	if !n.AllowInsecure {
		v.bad("network.bind", n.Bind, "must be a loopback address unless TLS is configured (section tls); to run open on a trusted network write allow_insecure = true")
		return
	}
	v.warn("listening on %s without TLS: anyone who reaches this address can run code on the cluster", n.Bind)
}

// gossipKey checks that whoever encrypts the rest does not gossip in the clear
// by accident: addresses to dial are learned there.
func (v *validator) gossipKey(n Network, t TLS, file string) {
	if file == "" && t.Enabled() && !n.AllowInsecure && !loopback.Host(n.Bind) {
		v.bad("gossip.key_file", "", "must be set when bind is not a loopback address: make a key with hearth operator gossip keys generate, the same for all members")
	}
}

func (v *validator) advertise(host string) {
	if _, _, err := net.SplitHostPort(host); err == nil {
		v.bad("network.advertise", host, "must be a host without a port")
		return
	}
	if err := checkHost(host); err != nil {
		v.bad("network.advertise", host, err.Error())
		return
	}
	if isUnspecified(host) {
		v.bad("network.advertise", host, "must be an address that others can dial")
	}
}

// port is a field with its port.
type port struct {
	field string
	port  int
}

func (v *validator) ports(ports []port) {
	taken := make(map[int]string)
	for _, p := range ports {
		if first, ok := taken[p.port]; ok && p.port != 0 {
			v.bad(p.field, strconv.Itoa(p.port), "must differ from "+first)
			continue
		}
		taken[p.port] = p.field
	}
}

func (v *validator) tls(t TLS) {
	if !t.Enabled() || t.Dir != "" {
		return
	}
	for _, f := range []struct{ field, path string }{
		{"tls.ca_file", t.CAFile}, {"tls.cert_file", t.CertFile}, {"tls.key_file", t.KeyFile},
	} {
		if f.path == "" {
			v.bad(f.field, "", "must be set when another file of section tls is, or dir instead of all three")
		}
	}
}

func (v *validator) beats(s Scheduler) {
	if s.WorkerTimeout < beatsPerTimeout*s.WorkerBeat {
		v.bad("scheduler.worker_timeout", s.WorkerTimeout.String(), fmt.Sprintf("must be at least %d times worker_beat (%s)", beatsPerTimeout, s.WorkerBeat))
	}
}
