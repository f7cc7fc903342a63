package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// driverFlags are what `hearth driver submit` was asked for.
type driverFlags struct {
	workFlags
	resources []string
	artifacts []string
	supervise bool
}

func newDriverSubmit(s Streams) *cobra.Command {
	var f driverFlags
	cmd := &cobra.Command{
		Use:   "submit [flags] -- COMMAND [ARG...]",
		Short: "Run a driver on the cluster",
		Long: "Runs a program on one of the workers. It is executed directly, not by a shell, in a\n" +
			"directory of its own with the files and artifacts that were asked for. The driver's id\n" +
			"is printed on standard output.\n\n" +
			"By default submit returns when the driver is placed; --detach returns as soon as it is\n" +
			"committed, --wait when it has ended, with the exit code of the program: 128+n for signal n,\n" +
			"130 killed by a user, 124 not placed or not done within --timeout, 255 lost by the cluster.\n" +
			"While it is not placed the reason is printed on standard error after 2 s and then every\n" +
			"10 s.\n\n" +
			"An artifact is fetched by the worker, once for each digest, from http, https or a file of\n" +
			"its machine: URL, or URL#sha256=DIGEST. Without a digest it is read here first, and its\n" +
			"digest of now counts. URL#name=PATH names it otherwise than the URL does.",
		Example: "  hearth driver submit --file job.py -- python3 job.py --date 2026-11-30\n" +
			"  hearth driver submit --supervise --artifact https://example.org/jobs/driver -- ./driver\n" +
			"  hearth driver submit --wait -- /bin/sh -c 'seq 100 | hearth run -- ./simulate {}'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.submit(cmd, s, args) },
	}
	cmd.Flags().SetInterspersed(false)
	f.bind(cmd)
	return cmd
}

func (f *driverFlags) bind(cmd *cobra.Command) {
	f.workFlags.bind(cmd, "driver")
	fs := cmd.Flags()
	fs.IntVar(&f.cores, "cores", 1, "cores of the driver")
	fs.StringVar(&f.memory, "memory", defaultDriverMemory, "memory of the driver")
	fs.StringArrayVar(&f.resources, "resource", nil, "named resource of the driver, NAME=AMOUNT (repeatable)")
	fs.StringArrayVar(&f.env, "env", nil, "environment of the driver, NAME=VALUE or NAME to pass yours on (repeatable)")
	fs.StringVar(&f.chdir, "chdir", "", "absolute working directory on the worker (default: a directory of its own)")
	fs.StringArrayVar(&f.files, "file", nil, "small file to put into the driver's directory, PATH or PATH:NAME (repeatable)")
	fs.StringArrayVar(&f.artifacts, "artifact", nil, "file that the worker fetches into the driver's directory, URL or URL#sha256=DIGEST&name=PATH (repeatable)")
	fs.BoolVar(&f.supervise, "supervise", false, "launch it again when it fails or is lost")
	fs.StringVar(&f.disconnect, "disconnect", string(model.DisconnectKeep), "keep: on a worker that is cut off it runs on until that is back; singleton: it ends before it is replaced, so that no two run at once")
	fs.DurationVar(&f.maxRuntime, "max-runtime", 0, "fail the driver when it is there for longer (default: no limit)")
}

// submit is the command: argv is what the driver runs.
func (f *driverFlags) submit(cmd *cobra.Command, s Streams, argv []string) error {
	spec, err := f.spec(cmd.Context(), s, argv)
	if err != nil {
		return err
	}
	return f.run(cmd, s, spec)
}

// spec turns flags into a description and reports every problem at once.
func (f *driverFlags) spec(ctx context.Context, s Streams, argv []string) (model.DriverSpec, error) {
	var ps problems
	w := f.read(s, argv, &ps)
	resources, err := parseResources(f.resources)
	ps.add(err)
	artifacts, err := parseArtifacts(ctx, f.artifacts)
	ps.add(err)
	spec := model.DriverSpec{
		Name: w.name, User: userName(), Cores: f.cores, MemoryMiB: w.memory, Resources: resources, Supervise: f.supervise,
		Command: w.command, Files: w.files, Artifacts: artifacts,
		Disconnect: model.DisconnectPolicy(f.disconnect), MaxRuntimeMilli: f.maxRuntime.Milliseconds(),
	}
	if err := ps.orOf(spec.Validate); err != nil {
		return model.DriverSpec{}, err
	}
	return spec, nil
}

func parseResources(list []string) (map[string]int, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no resources is the normal case
	}
	return config.ParseAmounts(list)
}

// run submits the driver and waits as far as it was asked to.
func (f *driverFlags) run(cmd *cobra.Command, s Streams, spec model.DriverSpec) error {
	return submission[model.DriverView]{
		kind: "driver", kill: "hearth driver kill", code: driverCode,
		submit: func(ctx context.Context, c *session) (string, error) {
			reply, err := c.SubmitDriver(ctx, spec)
			return string(reply.Driver), err
		},
		await: func(ctx context.Context, c *session, id string) (model.DriverView, bool, error) {
			v, err := f.await(ctx, c, s.Err, model.DriverID(id))
			return v, v.Terminal, err
		},
	}.run(cmd, s, &f.cluster, f.out, f.wait)
}

// await returns when the driver is where the flags want it, or has ended.
func (f *driverFlags) await(ctx context.Context, c *session, w io.Writer, id model.DriverID) (model.DriverView, error) {
	v, err := awaitView(ctx, c, w, id.Owner(), fmt.Sprintf("driver %s is not placed", id), func(ctx context.Context, after uint64) (model.DriverView, uint64, bool, error) {
		v, err := c.WaitDriver(ctx, id, after)
		return v, v.ChangeIndex, v.Terminal || f.detach || v.Attempt > 0, err
	})
	if err != nil || v.Terminal || !f.wait {
		return v, err
	}
	return driverEnded(ctx, c, id)
}
