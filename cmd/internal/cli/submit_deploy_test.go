package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// parsedSubmit reads the flags of `hearth submit`.
func parsedSubmit(t *testing.T, args ...string) (*submitFlags, *driverFlags, error) {
	t.Helper()
	var f submitFlags
	cmd := newSubmit(Streams{})
	cmd.ResetFlags()
	f.bind(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	d, err := f.asDriver(cmd)
	return &f, d, err
}

func TestSubmitInClusterModeAsksForTheDriverThatDriverSubmitAsksFor(t *testing.T) {
	shared := []string{
		"--supervise", "--cores", "2", "--name", "nightly", "--resource", "gpu=1", "--env", "A=b", "--chdir", "/srv",
		"--artifact", "https://example.org/driver#sha256=" + strings.Repeat("ab", 32), "--disconnect", "singleton", "--max-runtime", "1h", "--wait",
	}
	for _, more := range [][]string{nil, {"--memory", "2g"}} {
		args := append(shared, more...)
		_, got, err := parsedSubmit(t, append(args, "--deploy-mode", "cluster")...)
		if err != nil {
			t.Fatal(err)
		}
		var want driverFlags
		cmd := newDriverSubmit(Streams{})
		cmd.ResetFlags()
		want.bind(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		specs := make([]model.DriverSpec, 0, 2)
		for _, f := range []*driverFlags{got, &want} {
			spec, err := f.spec(t.Context(), Streams{}, []string{"./driver", "x"})
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, spec)
		}
		if diff := cmp.Diff(specs[1], specs[0]); diff != "" {
			t.Errorf("submit asks for something else (-driver submit +submit):\n%s", diff)
		}
		if specs[0].MaxRuntimeMilli != time.Hour.Milliseconds() || !specs[0].Supervise || !got.wait {
			t.Errorf("flags are lost: %+v", specs[0])
		}
	}
}

func TestSubmitRefusesFlagsOfTheOtherMode(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--supervise", "--supervise: goes with --deploy-mode cluster only"},
		{"--artifact x --supervise", "--supervise, --artifact: goes with --deploy-mode cluster only"},
		{"--deploy-mode cluster --executors 2 --queue q", "--executors, --queue: goes with --deploy-mode client only"},
		{"--deploy-mode yarn", `--deploy-mode "yarn": must be client or cluster`},
	} {
		if _, _, err := parsedSubmit(t, strings.Fields(test.args)...); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}
	}
	if _, d, err := parsedSubmit(t, "--executors", "2"); d != nil || err != nil {
		t.Errorf("copies: %+v, %v", d, err)
	}
}
