package client

import (
	"crypto/tls"
	"math/rand/v2"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/rpc"
)

// Config says which cluster to talk to.
type Config struct {
	// Masters are gRPC addresses, any non-empty subset of the cluster's.
	Masters []string
	TLS     *tls.Config  // nil = plain
	Dialer  rpc.DialFunc // nil = TCP
	Logger  hclog.Logger // nil = silent
	// Rand gives jitter and request ids; nil = seeded by the system.
	Rand *rand.Rand
	// Principal names the caller where no certificate does.
	Principal string
}
