package cli

import (
	"context"
	"crypto/tls"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
)

// defaultTimeout bounds a client command that asks one question.
const defaultTimeout = 30 * time.Second

// clusterFlags are the flags of every command that talks to a cluster.
type clusterFlags struct {
	file    string
	timeout time.Duration
}

func (f *clusterFlags) bind(cmd *cobra.Command) {
	config.BindClientFlags(cmd.Flags())
	cmd.Flags().StringVar(&f.file, "config", "", "HCL file with a client {} block")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "give up after this long")
}

// session is a client with the context its calls run under.
type session struct {
	*client.Client
	conf config.ClientConfig
	tls  *tls.Config
}

// connect makes a client from the command's flags and environment.
func (f *clusterFlags) connect(cmd *cobra.Command, s Streams) (*session, error) {
	if f.timeout <= 0 {
		return nil, usage("--timeout %s: must be more than 0", f.timeout)
	}
	conf, warnings, err := config.LoadClient(f.file, s.Env, cmd.Flags())
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		cmd.PrintErrln("hearth: warning: " + w)
	}
	source, err := tlsSource(conf.TLS)
	if err != nil {
		return nil, err
	}
	clientTLS := source.Client()
	token, err := config.ReadToken(conf.TokenFile)
	if err != nil {
		return nil, &codedError{code: exitUsage, err: err}
	}
	driver, attempt := client.DriverFromEnv(s.Env)
	c, err := client.New(client.Config{Masters: conf.Masters, TLS: clientTLS, Principal: userName(), Token: token, Driver: driver, Attempt: attempt, Dialer: s.dialer})
	if err != nil {
		return nil, err
	}
	return &session{Client: c, conf: conf, tls: clientTLS}, nil
}

// bounded limits a command's context by --timeout.
func (f *clusterFlags) bounded(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(cmd.Context(), f.timeout)
}

// patient is bounded for commands that wait for work: they have no limit unless
// --timeout is given.
func (f *clusterFlags) patient(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if cmd.Flags().Changed("timeout") {
		return f.bounded(cmd)
	}
	return context.WithCancel(cmd.Context())
}

// userName is who runs the command, for display; "" if the system cannot say.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
