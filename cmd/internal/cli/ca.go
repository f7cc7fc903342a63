package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// day is the unit of --days.
const day = 24 * time.Hour

// caView is `hearth ca show -o json`.
type caView struct {
	Version      int        `json:"version"`
	Certificates []ca.Shown `json:"certificates"`
}

// lifetimeFlags are --days and --lifetime.
type lifetimeFlags struct {
	days     int
	lifetime time.Duration
	both     func() bool // were given
}

func (f *lifetimeFlags) bind(cmd *cobra.Command, days int, usage string) {
	cmd.Flags().IntVar(&f.days, "days", days, usage)
	cmd.Flags().DurationVar(&f.lifetime, "lifetime", 0, "the same as a duration, such as 12h; it excludes --days")
	f.both = func() bool { return cmd.Flags().Changed("days") && cmd.Flags().Changed("lifetime") }
}

// get returns the life time asked for; zero if none was.
func (f *lifetimeFlags) get() (time.Duration, error) {
	switch {
	case f.both():
		return 0, usage("--days and --lifetime exclude each other")
	case f.lifetime < 0 || f.days < 0 || f.days > int(ca.MaxLifetime/day):
		return 0, usage("a life time must be between %s and %d days", ca.MinLifetime, int(ca.MaxLifetime/day))
	case f.lifetime > 0:
		return f.lifetime, nil
	}
	return time.Duration(f.days) * day, nil
}

func newCA(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make the certificates of a cluster",
		Long: "Keeps the authority of a cluster as files in a directory and makes certificates that hold a\n" +
			"role: master, worker or client. It works on files only, on any machine; no daemon needs the\n" +
			"directory of the authority, so keep it where only you can read it.\n\n" +
			"Daemons and commands take what `ca issue` wrote with --tls-dir. They notice new files by\n" +
			"themselves: a renewal needs no restart.",
		Example: "  hearth ca init ca --cluster prod\n" +
			"  hearth ca issue --ca ca --role master --name m1 --san 10.0.0.1 --out m1\n" +
			"  hearth ca issue --ca ca --role worker --name w1 --san 10.0.0.9 --out w1\n" +
			"  hearth ca issue --ca ca --role client --name alice --out alice\n" +
			"  hearth ca renew --ca ca m1 w1 alice               # then copy them to their machines again",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCAInit(s), newCAIssue(s), newCARenew(s), newCARotate(s), newCARevoke(s), newCAShow(s))
	return cmd
}

func newCAInit(s Streams) *cobra.Command {
	var cluster string
	var life lifetimeFlags
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make an authority, and a key for gossip",
		Long: "Makes the directory of an authority: its certificate, the key that signs, and a key for gossip\n" +
			"that `ca issue` hands on to masters and workers. Nothing is overwritten.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lifetime, err := life.get()
			if err != nil {
				return err
			}
			if _, err := ca.Init(args[0], cluster, lifetime); err != nil {
				return err
			}
			return say(s, "made the authority of cluster %s in %s: keep %s to yourself", cluster, args[0], filepath.Join(args[0], ca.KeyFile))
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "hearth", "name of the cluster: members of differently named ones refuse each other")
	life.bind(cmd, int(ca.DefaultAuthorityLifetime/day), "how long the authority is valid")
	return cmd
}

func newCAIssue(s Streams) *cobra.Command {
	var dir, role, out string
	var req ca.Request
	var life lifetimeFlags
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Issue a certificate for a master, worker or client",
		Long: "Makes a key and a certificate and writes them to a directory of their own, with the authorities to\n" +
			"trust (ca.pem, cert.pem, key.pem) and, for masters and workers, the key of gossip (gossip.key). Copy\n" +
			"that directory to its machine and name it with --tls-dir. Nothing is overwritten.\n\n" +
			"--san names a host or address under which others reach the holder; give all of them.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			lifetime, err := life.get()
			if err != nil {
				return err
			}
			if role == "" || req.Name == "" {
				return usage("--role and --name must be given")
			}
			a, err := ca.Open(dir)
			if err != nil {
				return err
			}
			req.Role, req.Lifetime = tlsconf.Role(role), lifetime
			if out == "" {
				out = req.Name
			}
			cert, err := a.Issue(out, req)
			if err != nil {
				return err
			}
			return say(s, "issued %s in %s, valid until %s", cert.URIs[0], out, cert.NotAfter.UTC().Format(time.RFC3339))
		},
	}
	bindCA(cmd, &dir)
	cmd.Flags().StringVar(&role, "role", "", "master, worker or client")
	cmd.Flags().StringVar(&req.Name, "name", "", "name of the holder, for people")
	cmd.Flags().StringSliceVar(&req.SANs, "san", nil, "host or address under which the holder is reached (repeatable)")
	cmd.Flags().StringVar(&out, "out", "", "directory to write to (default: the name)")
	life.bind(cmd, int(ca.DefaultLifetime/day), "how long the certificate is valid")
	return cmd
}

func bindCA(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "ca", "ca", "directory of the authority")
}

func newCARenew(s Streams) *cobra.Command {
	var dir string
	var life lifetimeFlags
	cmd := &cobra.Command{
		Use:   "renew DIR...",
		Short: "Replace certificates by new ones like them",
		Long: "Replaces key, certificate and the authorities to trust in directories that `ca issue` made: same\n" +
			"role, name and hosts, a new key, and the same life time unless another is given. A daemon that\n" +
			"reads the directory takes them up within seconds, or at once on SIGHUP.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lifetime, err := life.get()
			if err != nil {
				return err
			}
			a, err := ca.Open(dir)
			if err != nil {
				return err
			}
			for _, node := range args {
				cert, err := a.Renew(node, lifetime)
				if err != nil {
					return err
				}
				if err := say(s, "renewed %s in %s, valid until %s", cert.URIs[0], node, cert.NotAfter.UTC().Format(time.RFC3339)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	bindCA(cmd, &dir)
	life.bind(cmd, 0, "how long the certificates are valid (default: as long as the ones there)")
	return cmd
}

func newCARotate(s Streams) *cobra.Command {
	var life lifetimeFlags
	cmd := &cobra.Command{
		Use:   "rotate start|switch|finish DIR",
		Short: "Exchange the authority for a new one",
		Long: "Exchanges the authority in three steps. After each, renew every certificate (`ca renew`), copy it to\n" +
			"its machine and wait until all have taken it up. Nothing stops on the way.\n\n" +
			"  start    a second authority is made; both are trusted, the old one signs\n" +
			"  switch   both are trusted, the new one signs\n" +
			"  finish   only the new one is trusted; the old key is deleted",
		ValidArgs: []string{"start", "switch", "finish"},
		Args:      cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			lifetime, err := life.get()
			if err != nil {
				return err
			}
			steps := map[string]func(*ca.Authority) error{
				"start":  func(a *ca.Authority) error { return a.StartRotation(lifetime) },
				"switch": (*ca.Authority).SwitchRotation,
				"finish": (*ca.Authority).FinishRotation,
			}
			do := steps[args[0]]
			if do == nil {
				return usage("step %q: must be one of start, switch, finish", args[0])
			}
			a, err := ca.Open(args[1])
			if err != nil {
				return err
			}
			if err := do(a); err != nil {
				return err
			}
			return say(s, "%s: done; now renew every certificate (hearth ca renew --ca %s DIR...) and copy it to its machine", args[0], args[1])
		},
	}
	life.bind(cmd, int(ca.DefaultAuthorityLifetime/day), "how long the new authority is valid")
	return cmd
}

func newCARevoke(s Streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "revoke DIR|FILE|ROLE/NAME|SERIAL...",
		Short: "Take certificates back before they end",
		Long: "Adds certificates to the list of those that are good no more: the one in a directory or file, all\n" +
			"that were issued to a holder and have not ended, or the one with a serial number (issued.jsonl in\n" +
			"the directory of the authority has them).\n\n" +
			"Members follow the list as " + tlsconf.RevokedFile + " beside their ca.pem: copy it there from the directory of the\n" +
			"authority, on every machine. Within seconds they refuse these certificates and end the connections\n" +
			"that were made with them. `ca issue` and `ca renew` copy the list too.",
		Example: "  hearth ca revoke --ca ca worker/w7\n" +
			"  for m in m1 m2 m3; do scp ca/" + tlsconf.RevokedFile + " $m:/etc/hearth/tls/; done",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := ca.Open(dir)
			if err != nil {
				return err
			}
			revoked, err := a.Revoke(args...)
			if err != nil {
				return err
			}
			for _, i := range revoked {
				if err := say(s, "revoked %s, serial number %s", i.Identity, i.Serial); err != nil {
					return err
				}
			}
			return say(s, "now copy %s to every machine, beside ca.pem", filepath.Join(dir, tlsconf.RevokedFile))
		},
	}
	bindCA(cmd, &dir)
	return cmd
}

func newCAShow(s Streams) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "show FILE|DIR...",
		Short: "Show what is in certificates",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			v := caView{Version: model.ViewVersion, Certificates: []ca.Shown{}}
			for _, path := range args {
				shown, err := ca.Show(path)
				if err != nil {
					return fmt.Errorf("show certificate: %w", err)
				}
				v.Certificates = append(v.Certificates, shown...)
			}
			return o.print(s.Out, v, func(w io.Writer) error { return caTable(w, v.Certificates, time.Now()) })
		},
	}
	o.bind(cmd)
	return cmd
}

func caTable(w io.Writer, shown []ca.Shown, now time.Time) error {
	t := newTable(w, "FILE", "CLUSTER", "ROLE", "NAME", "HOSTS", "UNTIL", "LEFT", "SHA256")
	for _, c := range shown {
		role := c.Role
		if c.Authority {
			role = "authority"
		}
		t.row(c.File, c.Cluster, role, c.Name, strings.Join(c.Hosts, ","), c.Until.UTC().Format(time.RFC3339), timeLeft(c, now), c.SHA256[:16])
	}
	return t.flush()
}

// timeLeft says how long a certificate is still valid.
func timeLeft(c ca.Shown, now time.Time) string {
	left := c.Until.Sub(now)
	switch {
	case left <= 0:
		return "expired"
	case now.Before(c.From):
		return "not valid yet"
	case left >= 2*day:
		return fmt.Sprintf("%d days", int(left/day))
	}
	return left.Round(time.Second).String()
}

// say prints one line about what was done.
func say(s Streams, format string, args ...any) error {
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}
