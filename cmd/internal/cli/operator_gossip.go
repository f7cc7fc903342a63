package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/model"
)

// maxKeyInput bounds what is read as a key.
const maxKeyInput = 4 << 10

// gossipKeysView is `hearth operator gossip keys -o json`.
type gossipKeysView struct {
	Version int `json:"version"`
	model.GossipKeysView
}

func newGossipKeys(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "The keys that encrypt gossip",
		Long: "Lists and exchanges the keys of gossip on all members while they run. Keys are named by the\n" +
			"beginning of their SHA-256; the keys themselves are shown nowhere and never stand on a command\n" +
			"line. An exchange: generate a key, install it, use it, remove the old one. A step that would\n" +
			"cut a member off is refused and says which; --force does it all the same. Give members that\n" +
			"were down, and new ones, the new key in their key file.",
		Example: "  hearth operator gossip keys generate > new.key && chmod 600 new.key\n" +
			"  hearth operator gossip keys install new.key\n" +
			"  hearth operator gossip keys use 5d41402abc4b\n" +
			"  hearth operator gossip keys remove 98f13708210f",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGossipKeysList(s), newGossipKeysGenerate(s), newGossipKeysInstall(s),
		newGossipKeysChange(s, model.GossipKeyUse, "Encrypt with a key that all members have"),
		newGossipKeysChange(s, model.GossipKeyRemove, "Make all members forget a key"))
	return cmd
}

func newGossipKeysGenerate(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Print a new key; it changes nothing", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			key, err := ca.NewGossipKey()
			if err != nil {
				return err
			}
			return say(s, "%s", key)
		},
	}
}

func newGossipKeysList(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use: "list", Short: "Show how many members have which key", Args: cobra.NoArgs,
	}, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		v, err := c.GossipKeys(ctx)
		return gossipKeysAnswer(v, err)
	})
}

func newGossipKeysInstall(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use: "install FILE", Short: "Give all members another key; - reads it from standard input", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		key, err := readKeyInput(s, args[0])
		if err != nil {
			return nil, nil, err
		}
		v, err := c.ChangeGossipKeys(ctx, model.GossipKeyOrder{Action: model.GossipKeyInstall, Key: key})
		return gossipKeysAnswer(v, err)
	})
}

func newGossipKeysChange(s Streams, action model.GossipKeyAction, short string) *cobra.Command {
	var force bool
	cmd := question(s, &cobra.Command{
		Use: string(action) + " ID", Short: short, Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		v, err := c.ChangeGossipKeys(ctx, model.GossipKeyOrder{Action: action, ID: args[0], Force: force})
		return gossipKeysAnswer(v, err)
	})
	cmd.Flags().BoolVar(&force, "force", false, "do it although a member lacks the key or cannot be asked")
	return cmd
}

// readKeyInput reads a key from a file, so that it stands in no process list.
func readKeyInput(s Streams, path string) (model.Secret, error) {
	in := s.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read gossip key: %w", err)
		}
		defer f.Close() // read only
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeyInput+1))
	if err != nil {
		return "", fmt.Errorf("read gossip key: %w", err)
	}
	keys, err := gossip.ParseKeys(text)
	switch {
	case len(text) > maxKeyInput || err == nil && len(keys) != 1:
		return "", usage("%s: must hold one gossip key, as keys generate prints it", path)
	case err != nil:
		return "", usage("%s: %v", path, err)
	}
	return model.Secret(strings.TrimSpace(string(text))), nil
}

func gossipKeysAnswer(got model.GossipKeysView, err error) (any, func(io.Writer) error, error) {
	if err != nil {
		return nil, nil, err
	}
	got.Keys, got.Problems, got.Absent = orEmpty(got.Keys), orEmpty(got.Problems), orEmpty(got.Absent)
	return gossipKeysView{Version: model.ViewVersion, GossipKeysView: got}, func(w io.Writer) error {
		t := newTable(w, "KEY", "MEMBERS WITH IT", "ENCRYPTING WITH IT")
		for _, k := range got.Keys {
			t.row(k.ID, fmt.Sprintf("%d of %d", k.Holders, got.Members), k.Primary)
		}
		if err := t.flush(); err != nil {
			return err
		}
		var notes []string
		if got.Answered < got.Members {
			notes = append(notes, fmt.Sprintf("%d of %d members have not answered: try again", got.Members-got.Answered, got.Members))
		}
		notes = append(notes, got.Problems...)
		for _, id := range got.Absent {
			notes = append(notes, id+" has failed: it has the keys it had, and needs the one in use in its key file to come back")
		}
		for _, n := range notes {
			if _, err := fmt.Fprintln(w, n); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
