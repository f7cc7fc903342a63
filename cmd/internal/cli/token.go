package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// defaultTokenLife is how long a token is accepted unless --expires says
// otherwise.
const defaultTokenLife = 30 * 24 * time.Hour

// tokensView is `hearth token list -o json`.
type tokensView struct {
	Version int               `json:"version"`
	Tokens  []model.TokenView `json:"tokens"`
}

// tokenCreatedView is `hearth token create -o json`. Token is the secret, unless
// it went into a file.
type tokenCreatedView struct {
	Version int           `json:"version"`
	ID      model.TokenID `json:"id"`
	Name    string        `json:"name"`
	Role    model.Role    `json:"role"`
	File    string        `json:"file"`
	Token   string        `json:"token"`
}

func newToken(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Say which people may do what",
		Long: "A token says who acts and what he may do: a viewer reads, a submitter also registers\n" +
			"applications and ends his own, an operator may do everything. It is used by\n" +
			"--token-file or HEARTH_TOKEN_FILE, and over HTTP as Authorization: Bearer.\n\n" +
			"Where masters run with --tokens required, each person needs one. The first operator's\n" +
			"is in operator.token in the data directory of the master that led first; with TLS the\n" +
			"certificate of a master is an operator's too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(s), newTokenList(s), newTokenRevoke(s))
	return cmd
}

func newTokenCreate(s Streams) *cobra.Command {
	var role, name, out string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token",
		Long: "Makes a token and has the cluster accept it. The secret is made here and shown once:\n" +
			"the cluster keeps its hash only.",
		Example: "  hearth token create --role submitter --name ann --out ann.token\n" +
			"  hearth token create --role viewer --name prometheus --expires 0 --out /etc/prometheus/hearth.token",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, submitter or operator")
	cmd.Flags().StringVar(&name, "name", "", "who acts with it: the name in the audit trail, and the owner of what it submits")
	cmd.Flags().DurationVar(&life, "expires", defaultTokenLife, "how long it is accepted, by the cluster's own clock; 0 is for ever")
	cmd.Flags().StringVar(&out, "out", "", "write the secret to this new file, in mode 0600, instead of standard output")
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		r, err := model.ParseRole(role)
		if err != nil {
			return nil, nil, usage("--role: %w", err)
		}
		if err := model.ValidTokenName(name); err != nil {
			return nil, nil, usage("--name: %w", err)
		}
		if life != 0 && life.Milliseconds() == 0 {
			return nil, nil, usage("--expires %s: must be 0 (for ever) or at least 1s", life)
		}
		secret, err := model.NewBearer(rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		hash := model.HashBearer(secret)
		req := rpc.CreateTokenRequest{Name: name, Role: r, Hash: hash, LifetimeMilli: life.Milliseconds()}
		if err := createToken(ctx, c, req, out, secret); err != nil {
			return nil, nil, err
		}
		v := tokenCreatedView{Version: model.ViewVersion, ID: hash.ID(), Name: name, Role: r, File: out}
		if out == "" {
			v.Token = secret.Reveal()
		}
		return v, func(w io.Writer) error { return tokenCreated(w, v) }, nil
	})
}

// createToken writes the secret down before the cluster accepts it: an accepted
// token that nobody knows helps nobody.
func createToken(ctx context.Context, c *session, req rpc.CreateTokenRequest, out string, secret model.Secret) error {
	if out != "" {
		if err := writeToken(out, secret); err != nil {
			return err
		}
	}
	err := c.CreateToken(ctx, req)
	if err != nil && out != "" && !errors.Is(err, model.ErrOutcomeUnknown) {
		return errors.Join(err, os.Remove(out))
	}
	return err
}

// writeToken makes a file that nobody else can read.
func writeToken(path string, secret model.Secret) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usage("--out %s exists already: name a new file", path)
	}
	if err != nil {
		return fmt.Errorf("make the token's file: %w", err)
	}
	_, werr := f.WriteString(secret.Reveal() + "\n")
	if err := errors.Join(werr, f.Chmod(0o600), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the token's file: %w", err), os.Remove(path))
	}
	return nil
}

func tokenCreated(w io.Writer, v tokenCreatedView) error {
	text := v.Token
	if v.File != "" {
		text = fmt.Sprintf("%s of %s (%s) is in %s", v.ID, v.Name, v.Role, v.File)
	}
	if _, err := fmt.Fprintln(w, text); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

func newTokenList(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
	}
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		list, err := c.Tokens(ctx)
		if err != nil {
			return nil, nil, err
		}
		v := tokensView{Version: model.ViewVersion, Tokens: orEmpty(list)}
		return v, func(w io.Writer) error { return tokenTable(w, v.Tokens) }, nil
	})
}

func tokenTable(w io.Writer, list []model.TokenView) error {
	t := newTable(w, "TOKEN", "NAME", "ROLE", "EXPIRES", "CREATED", "BY")
	for _, tok := range list {
		expires := "never"
		switch {
		case !tok.Active:
			expires = "expired"
		case tok.ExpiresAt != "":
			expires = "in " + (time.Duration(tok.ExpiresIn) * time.Millisecond).Round(time.Minute).String()
		}
		t.row(tok.ID, tok.Name, tok.Role, expires, tok.CreatedAt, oneLine(tok.CreatedBy))
	}
	return t.flush()
}

func newTokenRevoke(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke TOKEN...",
		Short:   "Have tokens refused from now on",
		Long:    "Has tokens refused from now on. A token is named by its id or the beginning of that, as\nin hearth token list; never by its secret.",
		Example: "  hearth token revoke token-0123456789ab",
		Args:    cobra.MinimumNArgs(1),
	}
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		list, err := c.Tokens(ctx)
		if err != nil {
			return nil, nil, err
		}
		names := make([]string, 0, len(args))
		for _, arg := range args {
			id, err := tokenOf(list, arg)
			if err != nil {
				return nil, nil, err
			}
			names = append(names, string(id))
		}
		for _, id := range names {
			if err := c.RevokeToken(ctx, model.TokenID(id)); err != nil {
				return nil, nil, err
			}
		}
		return done("revoked %s", strings.Join(names, ", "))
	})
}

// tokenOf finds a token by its id or a unique beginning of it.
func tokenOf(list []model.TokenView, arg string) (model.TokenID, error) {
	var found []model.TokenID
	for _, t := range list {
		if strings.HasPrefix(string(t.ID), arg) {
			found = append(found, t.ID)
		}
	}
	switch {
	case strings.HasPrefix(arg, "hearth_"):
		return "", usage("this is the secret of a token, which does not belong on a command line: name the token by its id, see hearth token list")
	case len(found) == 0:
		return "", fmt.Errorf("%w: token %q", model.ErrNotFound, arg)
	case len(found) > 1:
		return "", usage("%q fits %d tokens, among them %s and %s: give more of the id", arg, len(found), found[0], found[1])
	}
	return found[0], nil
}
