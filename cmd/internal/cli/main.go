package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Exit codes (design 9).
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoLeader = 3
	exitRefused  = 4
	exitTimeout  = 124
	exitKilled   = 130
	exitFault    = 255
)

// Streams are what a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Env []string

	dialer rpc.DialFunc // how masters are reached; nil = TCP
}

// codedError carries the exit code that a verb decided on. A nil err prints
// nothing: the verb has said what there is to say.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// exit ends a verb with a code and nothing more to print.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &codedError{code: code}
}

func usage(format string, args ...any) error {
	return &codedError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// Main runs one command line and returns the exit code. The first interrupt or
// SIGTERM ends the command's context; a second one ends the process at once.
func Main(args []string, s Streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // give the second signal back to the system
	return execute(ctx, args, s)
}

func execute(ctx context.Context, args []string, s Streams) int {
	root := newRoot(s) //nolint:contextcheck // commands get the context from ExecuteContext
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	var coded *codedError
	if !errors.As(err, &coded) || coded.err != nil {
		for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
			_, _ = fmt.Fprintln(s.Err, "hearth: "+line) // nowhere to report a broken stderr
		}
		if errors.Is(err, model.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded) {
			_, _ = fmt.Fprintln(s.Err, "hearth: no answer in time: name masters that run with --masters or HEARTH_MASTERS, and with TLS your certificate with --tls-dir or HEARTH_TLS_DIR")
		}
	}
	return code
}

// exitCode maps an error to the code of design 9.
func exitCode(err error) int {
	var coded *codedError
	var conf *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &conf):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitKilled // interrupted by whoever runs the command
	case errors.Is(err, model.ErrNoLeader), errors.Is(err, model.ErrUnavailable):
		return exitNoLeader // no master answered, or none leads
	case errors.Is(err, model.ErrRefused), errors.Is(err, model.ErrUnauthenticated), errors.Is(err, model.ErrForeignCluster):
		return exitRefused
	case errors.Is(err, model.ErrInvalid), errors.Is(err, model.ErrTooLarge):
		return exitUsage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailed
}

// newRoot builds the whole command tree for one run.
func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "hearth",
		Short:         "A highly available cluster manager",
		Long:          "Hearth runs applications on a cluster of machines, with masters that replicate every\nregistration and placement, so that any one of them may die.\n\nStart with `hearth demo`, or `hearth master` and `hearth worker`.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(usageOf)
	root.AddCommand(
		newMaster(s), newWorker(s), newKeeper(s), newExecutor(s), newDemo(s),
		newBench(s), newRun(s), newSubmit(s), newWait(s), newStatus(s), newApps(s), newApp(s), newWorkers(s), newQueue(s), newWhy(s), newDriver(s), newDrivers(s),
		newLogs(s), newKill(s), newDrain(s), newUndrain(s), newSettings(s), newSimulate(s), newOperator(s), newToken(s), newAudit(s), newCA(s), newVersion(s),
	)
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd() // before the arguments of all are checked
	usageArgs(root)
	return root
}

// newHelp is cobra's help command, except that an unknown verb is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return usageOf(root, err)
			}
			if len(rest) > 0 {
				return usageOf(cmd, fmt.Errorf("unknown command %q", strings.Join(rest, " ")))
			}
			return cmd.Help()
		},
	}
}

// usageOf says what is wrong with the command line of a verb, and where help is.
func usageOf(cmd *cobra.Command, err error) error {
	path := cmd.CommandPath()
	if verb, ok := strings.CutPrefix(path, cmd.Root().Name()+" "); ok {
		err = fmt.Errorf("%s: %w", verb, err)
	}
	return usage("%w; see %s --help", err, path)
}

// usageArgs makes a wrong number of arguments, or an unknown verb, a usage
// error on every command.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usageOf(c, err)
			}
			return nil
		}
	}
	if cmd.Run == nil && cmd.RunE == nil { // then cobra would not look at arguments
		cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, sub := range cmd.Commands() {
		usageArgs(sub)
	}
}
