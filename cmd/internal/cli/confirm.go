package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/hearthd/hearth/model"
)

// confirm asks a question at the terminal, unless yes is given. Without a terminal
// it refuses and names --yes; any answer but yes changes nothing.
func confirm(s Streams, yes bool, verb, question string) error {
	if yes {
		return nil
	}
	if f, ok := s.In.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return usage("%s: there is no terminal to ask at; say --yes", verb)
	}
	_, _ = fmt.Fprintf(s.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(s.In).ReadString('\n') // at its end the answer is no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return fmt.Errorf("%w: nothing was changed", model.ErrRefused)
	}
	return nil
}
