package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Tree returns all commands with their flags, for those who write documentation
// about them. It is not meant to be executed: its streams lead nowhere.
func Tree() *cobra.Command {
	return newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
}
