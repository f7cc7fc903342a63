package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/model"
)

func placing(t *testing.T, have model.Placing, args ...string) (model.Placing, map[string]int, error) {
	t.Helper()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := BindPlacingFlags(fs, "copy")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	resources := map[string]int{"fpga": 2}
	err := f.Apply(&have, &resources)
	return have, resources, err
}

func TestPlacingFlagsGoOverWhatTheProgramSays(t *testing.T) {
	t.Parallel()
	got, resources, err := placing(t, model.Placing{Queue: "batch", MinExecutors: 3},
		"--queue", "prod", "--require", "disk=ssd", "--require", "zone=a=b", "--prefer", "rack=a7", "--resource", "gpu=2")
	if err != nil {
		t.Fatal(err)
	}
	want := model.Placing{
		Queue: "prod", MinExecutors: 3,
		Require: map[string]string{"disk": "ssd", "zone": "a=b"}, Prefer: map[string]string{"rack": "a7"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"gpu": 2}, resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	got, resources, err = placing(t, model.Placing{Queue: "batch"})
	if err != nil || got.Queue != "batch" || resources["fpga"] != 2 {
		t.Errorf("without flags: %+v, %v, %v", got, resources, err)
	}
}

func TestEveryProblemOfPlacingFlagsIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := placing(t, model.Placing{}, "--queue", "a b", "--min-executors", "0", "--require", "disk", "--prefer", "a=1", "--prefer", "a=2", "--resource", "gpu=0")
	if !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("error %v, want ErrInvalid", err)
	}
	for _, flag := range []string{"--queue", "--min-executors 0", "--require \"disk\"", "--prefer \"a=2\"", "--resource \"gpu=0\""} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is missing from: %v", flag, err)
		}
	}
}
