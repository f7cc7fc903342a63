//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// driverVariable makes the test binary a program with drivers in it; see
// driverMain.
const driverVariable = "E2E_DRIVERS"

// binaryVariable names a binary to test, such as the one in a package, instead of
// one that is built from the source beside.
const binaryVariable = "HEARTH_E2E_BINARY"

// hearthBinary is set once, by TestMain, and not written afterwards.
var hearthBinary string

func TestMain(m *testing.M) {
	if how := os.Getenv(driverVariable); how != "" {
		os.Exit(driverMain(how))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hearth-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := makeBinary(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// makeBinary puts the binary under test into dir, named hearth.
func makeBinary(dir string) error {
	hearthBinary = filepath.Join(dir, "hearth")
	if given := os.Getenv(binaryVariable); given != "" {
		path, err := filepath.Abs(given)
		if err != nil {
			return err
		}
		return os.Symlink(path, hearthBinary)
	}
	args := append([]string{"build"}, buildFlags...)
	build := exec.Command("go", append(args, "-o", hearthBinary, "github.com/hearthd/hearth/cmd/hearth")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build hearth: %w", err)
	}
	return nil
}
