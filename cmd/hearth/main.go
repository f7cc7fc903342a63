// Command hearth is the whole of Hearth in one binary: master, worker, client
// commands and the processes they start.
package main

import (
	"os"

	"github.com/hearthd/hearth/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}))
}
