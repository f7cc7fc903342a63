//go:build linux

package workerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// driverTLSDir is the directory in that of a driver with the files by which masters know it.
const driverTLSDir = ".hearth-tls"

// driverTLS is what a worker of a cluster with TLS gives its drivers (ADR 0041): the authorities that
// are trusted, and a certificate that the driver's secret proves. The worker's own key stays with it.
type driverTLS struct {
	cluster     string        // the name in certificates
	authorities func() []byte // PEM, as of now
}

// newDriverTLS is nil without TLS.
func newDriverTLS(deps Deps) (*driverTLS, error) {
	own := tlsconf.Own(deps.ClientTLS)
	if own == nil || deps.Authorities == nil {
		return nil, nil //nolint:nilnil // documented: no TLS is nothing to give
	}
	id, err := tlsconf.IdentityOf(own)
	if err != nil {
		return nil, fmt.Errorf("find out the cluster's name for drivers: %w", err)
	}
	return &driverTLS{cluster: id.Cluster, authorities: deps.Authorities}, nil
}

// wanted reports whether the process is a driver that brings no files of its own.
func (d *driverTLS) wanted(o *model.LaunchOrder) bool {
	return d != nil && model.IsDriver(o.Ref.App) && o.Secret != "" && !slices.ContainsFunc(o.Spec.Command.Env, func(kv string) bool {
		return strings.HasPrefix(kv, config.EnvTLSDir+"=") || strings.HasPrefix(kv, config.EnvPrefix+"TLS_")
	})
}

// write puts the files of a driver into its directory dir and returns the directory that they are in.
func (d *driverTLS) write(dir string, o *model.LaunchOrder) (string, error) {
	cert, key, err := tlsconf.DriverPair(d.cluster, model.DriverRefName(o.Ref), o.Secret.Reveal())
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir(driverTLSDir, 0o700); err != nil {
		return "", err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"ca.pem", d.authorities()}, {"cert.pem", cert}, {"key.pem", key}} {
		if err := writeNew(root, filepath.Join(driverTLSDir, f.name), f.data, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, driverTLSDir), nil
}
